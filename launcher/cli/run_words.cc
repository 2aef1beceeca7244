#include "launcher/cli/run_words.h"

#include <array>
#include <charconv>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "launcher/recipe/override.h"
#include "launcher/recipe/suggest.h"

namespace am::cli {
namespace {

constexpr std::array<std::string_view, 6> kOptions = {"nproc-per-node", "nodes",  "cluster",
                                                      "fresh",          "strict", "state-dir"};

absl::string_view Abseil(std::string_view text) { return {text.data(), text.size()}; }

absl::Status Wrong(std::string message) { return absl::InvalidArgumentError(message); }

absl::StatusOr<int> Count(const std::string& option, const std::string& value) {
  int count = 0;
  auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
  if (error != std::errc() || end != value.data() + value.size() || count < 1 || count > 65536) {
    return Wrong(
        absl::StrCat("--", option, ": a whole number from 1 on was expected, not '", value, "'"));
  }
  return count;
}

// One pass over the words; `next_` is the first that is not taken.
class Parser {
 public:
  explicit Parser(const std::vector<std::string>& words) : words_(words) {}

  absl::StatusOr<RunWords> Parse() {
    while (next_ < words_.size()) {
      const std::string& word = words_[next_++];
      AM_RETURN_IF_ERROR(word.starts_with("--") ? Dashed(word) : Plain(word));
    }
    if (result_.recipe.empty()) return Wrong("no recipe was given");
    return std::move(result_);
  }

 private:
  absl::Status Plain(const std::string& word) {
    size_t equals = word.find('=');
    if (equals != std::string::npos && recipe::NamesARecipeSection(word.substr(0, equals))) {
      result_.overrides.push_back(word);
      return absl::OkStatus();
    }
    if (word.starts_with("-") && word.size() > 1)
      return Wrong(absl::StrCat("unknown option ", word));
    if (!result_.recipe.empty()) {
      return Wrong(absl::StrCat("one recipe was expected, not also '", word,
                                "'; an override reads --section.key=value"));
    }
    result_.recipe = word;
    return absl::OkStatus();
  }

  absl::Status Dashed(const std::string& word) {
    size_t equals = word.find('=');
    std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::string option = name;
    for (char& c : option) c = c == '_' ? '-' : c;
    for (std::string_view known : kOptions) {
      if (option == known) return Option(option, word, equals);
    }
    bool removes = name.ends_with('-');
    if (!recipe::NamesARecipeSection(removes ? name.substr(0, name.size() - 1) : name)) {
      return Wrong(absl::StrCat("unknown option --", name, "; ",
                                Abseil(recipe::Suggest(option, kOptions)),
                                "; an override begins with a section of the recipe"));
    }
    if (equals != std::string::npos || removes) {
      result_.overrides.push_back(word);
    } else if (next_ == words_.size() || words_[next_].starts_with("--")) {
      result_.overrides.push_back(word + "=true");
    } else {
      result_.overrides.push_back(word);
      result_.overrides.push_back(words_[next_++]);
    }
    return absl::OkStatus();
  }

  absl::Status Option(const std::string& option, const std::string& word, size_t equals) {
    if (option == "fresh" || option == "strict") {
      if (equals != std::string::npos) return Wrong(absl::StrCat("--", option, " takes no value"));
      (option == "fresh" ? result_.fresh : result_.strict) = true;
      return absl::OkStatus();
    }
    std::string value;
    if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else if (next_ < words_.size()) {
      value = words_[next_++];
    }
    if (value.empty()) return Wrong(absl::StrCat("--", option, " needs a value"));
    if (option == "cluster") {
      result_.cluster = value;
    } else if (option == "state-dir") {
      result_.state_dir = value;
    } else if (option == "nodes") {
      AM_ASSIGN_OR_RETURN(result_.nodes, Count(option, value));
    } else {
      AM_ASSIGN_OR_RETURN(result_.nproc_per_node, Count(option, value));
    }
    return absl::OkStatus();
  }

  const std::vector<std::string>& words_;
  size_t next_ = 0;
  RunWords result_;
};

}  // namespace

absl::StatusOr<RunWords> ParseRunWords(const std::vector<std::string>& words) {
  return Parser(words).Parse();
}

}  // namespace am::cli

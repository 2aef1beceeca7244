#include "launcher/cli/check_words.h"

#include <charconv>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "launcher/recipe/suggest.h"

namespace am::cli {
namespace {

constexpr std::string_view kFlags[] = {"json", "strict", "check-paths"};
constexpr std::string_view kValued[] = {"cluster", "nodes", "gpus-per-node", "nproc-per-node"};

template <size_t kSize>
bool IsOneOf(std::string_view name, const std::string_view (&names)[kSize]) {
  for (std::string_view known : names) {
    if (known == name) return true;
  }
  return false;
}

absl::StatusOr<int> Count(const std::string& option, const std::string& value) {
  int count = 0;
  auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), count);
  if (error != std::errc() || end != value.data() + value.size() || count < 1 || count > 65536) {
    return absl::InvalidArgumentError(
        absl::StrCat("--", option, ": expected an integer of at least 1, got ", value));
  }
  return count;
}

absl::Status SetOption(const std::string& option, const std::string& value, CheckWords& out) {
  if (option == "cluster") {
    out.cluster = value;
  } else if (option == "nodes") {
    AM_ASSIGN_OR_RETURN(out.nodes, Count(option, value));
  } else {
    AM_ASSIGN_OR_RETURN(out.ranks_per_node, Count(option, value));
  }
  return absl::OkStatus();
}

absl::Status UnknownOption(const std::string& option) {
  std::vector<std::string_view> known(std::begin(kFlags), std::end(kFlags));
  known.insert(known.end(), std::begin(kValued), std::end(kValued));
  std::string near(recipe::Nearest(option, known));
  return absl::InvalidArgumentError(
      absl::StrCat("unknown option --", option, "; ",
                   near.empty() ? "overrides begin with a section of the recipe"
                                : "did you mean --" + near + "?"));
}

}  // namespace

absl::StatusOr<CheckWords> ParseCheckWords(const std::vector<std::string>& words) {
  CheckWords out;
  std::vector<std::string> overrides;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    size_t equals = word.find('=');
    if (!word.starts_with("--")) {
      if (equals != std::string::npos && recipe::NamesARecipeSection(word.substr(0, equals))) {
        overrides.push_back(word);
      } else if (word.size() > 1 && word.front() == '-') {
        return UnknownOption(word.substr(1));
      } else {
        out.recipes.push_back(word);
      }
      continue;
    }
    std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::string option = name;
    for (char& c : option) c = c == '_' ? '-' : c;
    bool more = i + 1 < words.size();
    if (IsOneOf(option, kFlags)) {
      if (equals != std::string::npos) {
        return absl::InvalidArgumentError(absl::StrCat("--", option, " takes no value"));
      }
      (option == "json" ? out.json : option == "strict" ? out.strict : out.check_paths) = true;
    } else if (IsOneOf(option, kValued)) {
      std::string value = equals != std::string::npos ? word.substr(equals + 1)
                          : more                      ? words[++i]
                                                      : "";
      if (value.empty())
        return absl::InvalidArgumentError(absl::StrCat("--", option, " needs a value"));
      AM_RETURN_IF_ERROR(SetOption(option, value, out));
    } else if (!recipe::NamesARecipeSection(name)) {
      return UnknownOption(option);
    } else {
      overrides.push_back(word);
      if (equals == std::string::npos && !name.ends_with('-') && more &&
          !words[i + 1].starts_with("--")) {
        overrides.push_back(words[++i]);
      }
    }
  }
  if (out.recipes.empty()) return absl::InvalidArgumentError("no recipe was given");
  AM_ASSIGN_OR_RETURN(out.overrides, recipe::ParseOverrides(overrides));
  return out;
}

}  // namespace am::cli

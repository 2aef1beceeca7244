#include "launcher/cli/words.h"

#include <charconv>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "launcher/recipe/schema.h"
#include "launcher/recipe/suggest.h"

namespace am::cli {
namespace {

constexpr int kMostCount = 1 << 20;
constexpr size_t kHelpColumn = 23;  // of what an option does

absl::string_view Abseil(std::string_view text) { return {text.data(), text.size()}; }
absl::Status Wrong(std::string message) { return absl::InvalidArgumentError(message); }

std::string Dashed(std::string_view name) {
  std::string dashed(name);
  for (char& c : dashed) c = c == '_' ? '-' : c;
  return dashed;
}

const Option* FindOption(const Command& command, std::string_view name) {
  for (const Option& option : command.options) {
    if (option.name == name || (!option.also.empty() && option.also == name)) return &option;
  }
  return nullptr;
}

std::string NearestSection(std::string_view dotted) {
  size_t dot = dotted.find('.');
  std::vector<std::string_view> sections;
  for (const recipe::Key& key : recipe::kRecipeSchema.keys) {
    bool fits = key.section || dot == std::string_view::npos;
    if (fits && !key.name.ends_with('*')) sections.push_back(key.name);
  }
  std::string_view near = recipe::Nearest(dotted.substr(0, dot), sections);
  if (near.empty()) return "";
  return absl::StrCat(Abseil(near),
                      Abseil(dot == std::string_view::npos ? "" : dotted.substr(dot)));
}

// `word` without its dashes and its value.
absl::Status UnknownOption(const Command& command, std::string_view dashes, std::string_view name) {
  std::string what = absl::StrCat("unknown option ", Abseil(dashes), Abseil(name), "; ");
  std::vector<std::string_view> known = {"help"};
  for (const Option& option : command.options) {
    known.push_back(option.name);
    if (!option.also.empty()) known.push_back(option.also);
  }
  std::string dashed = Dashed(name);
  if (std::string_view near = recipe::Nearest(dashed, known); !near.empty()) {
    return Wrong(absl::StrCat(what, "did you mean --", Abseil(near), "?"));
  }
  if (!command.overrides) return Wrong(what + Dashed(recipe::Suggest(dashed, known)));
  if (std::string near = NearestSection(name); !near.empty()) {
    return Wrong(absl::StrCat(what, "did you mean --", near, "?"));
  }
  return Wrong(absl::StrCat(what, "an override begins with a section of the recipe"));
}

// One pass over the words; `next_` is the first that is not taken.
class Splitter {
 public:
  Splitter(const Command& command, const std::vector<std::string>& words)
      : command_(command), words_(words) {}

  absl::StatusOr<Words> Split() {
    while (next_ < words_.size()) {
      const std::string& word = words_[next_++];
      if (word == "--") {
        while (next_ < words_.size()) result_.plain.push_back(words_[next_++]);
      } else {
        AM_RETURN_IF_ERROR(word.starts_with("--") ? WithDashes(word) : WithoutDashes(word));
      }
    }
    AM_ASSIGN_OR_RETURN(result_.overrides, recipe::ParseOverrides(overrides_));
    return std::move(result_);
  }

 private:
  absl::Status WithoutDashes(const std::string& word) {
    if (word.size() > 1 && word.front() == '-') {
      const Option* option = word.size() == 2 ? FindOption(command_, word.substr(1)) : nullptr;
      if (option != nullptr) return TakeOption(*option, word, std::string::npos);
      return UnknownOption(command_, "-", std::string_view(word).substr(1));
    }
    size_t equals = word.find('=');
    std::string name = word.substr(0, equals);
    // A path may hold an equals sign, but not before its first slash.
    bool assigns = command_.overrides && equals != std::string::npos && !name.empty() &&
                   name.find('/') == std::string::npos;
    if (!assigns) {
      result_.plain.push_back(word);
    } else if (recipe::NamesARecipeSection(name)) {
      overrides_.push_back(word);
    } else {
      std::string near = NearestSection(name);
      return Wrong(absl::StrCat(
          word, ": ", name.substr(0, name.find('.')), " is no section of a recipe",
          near.empty() ? "; see amctl explain" : absl::StrCat("; did you mean ", near, "?")));
    }
    return absl::OkStatus();
  }

  absl::Status WithDashes(const std::string& word) {
    size_t equals = word.find('=');
    std::string name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    if (const Option* option = FindOption(command_, Dashed(name))) {
      return TakeOption(*option, word, equals);
    }
    if (!command_.overrides || !recipe::NamesARecipeSection(name)) {
      return UnknownOption(command_, "--", name);
    }
    bool removes = name.ends_with('-');
    bool more = next_ < words_.size() && !words_[next_].starts_with("--");
    if (equals != std::string::npos || removes) {
      overrides_.push_back(word);
    } else if (!more) {
      overrides_.push_back(word + "=true");
    } else {
      overrides_.push_back(word);
      overrides_.push_back(words_[next_++]);
    }
    return absl::OkStatus();
  }

  absl::Status TakeOption(const Option& option, const std::string& word, size_t equals) {
    std::string name = absl::StrCat("--", Abseil(option.name));
    std::string value;
    if (option.value.empty()) {
      if (equals != std::string::npos) return Wrong(name + " takes no value");
    } else if (equals != std::string::npos) {
      value = word.substr(equals + 1);
    } else if (next_ < words_.size() && !words_[next_].starts_with("--")) {
      value = words_[next_++];
    }
    if (!option.value.empty() && value.empty()) return Wrong(name + " needs a value");
    result_.options.emplace_back(option.name, value);
    return absl::OkStatus();
  }

  const Command& command_;
  const std::vector<std::string>& words_;
  size_t next_ = 0;
  std::vector<std::string> overrides_;
  Words result_;
};

}  // namespace

bool Words::Has(std::string_view option) const { return Value(option).has_value(); }

std::optional<std::string> Words::Value(std::string_view option) const {
  std::vector<std::string> values = Values(option);
  return values.empty() ? std::nullopt : std::optional(values.back());
}

std::vector<std::string> Words::Values(std::string_view option) const {
  std::vector<std::string> values;
  for (const auto& [name, value] : options) {
    if (name == option) values.push_back(value);
  }
  return values;
}

absl::StatusOr<std::optional<int>> Words::Count(std::string_view option) const {
  std::optional<std::string> value = Value(option);
  if (!value) return std::optional<int>();
  int count = 0;
  auto [end, error] = std::from_chars(value->data(), value->data() + value->size(), count);
  if (error != std::errc() || end != value->data() + value->size() || count < 1 ||
      count > kMostCount) {
    return Wrong(
        absl::StrCat("--", Abseil(option), ": expected an integer of at least 1, got ", *value));
  }
  return std::optional<int>(count);
}

absl::StatusOr<Words> SplitWords(const Command& command, const std::vector<std::string>& words) {
  return Splitter(command, words).Split();
}

absl::StatusOr<std::string> TheRecipe(const Words& words) {
  if (words.plain.empty()) return Wrong("no recipe was given");
  if (words.plain.size() > 1) {
    return Wrong(absl::StrCat("one recipe was expected, not also ", words.plain[1],
                              "; an override reads --section.key=value"));
  }
  return words.plain[0];
}

std::string HelpText(const Command& command) {
  std::string text =
      absl::StrCat("usage: amctl ", Abseil(command.usage), "\n\n", Abseil(command.about), "\n");
  auto line = [&](std::string left, std::string_view help) {
    left = "  " + left;
    bool fits = left.size() + 2 <= kHelpColumn;
    left +=
        fits ? std::string(kHelpColumn - left.size(), ' ') : "\n" + std::string(kHelpColumn, ' ');
    absl::StrAppend(&text, left, Abseil(help), "\n");
  };
  if (!command.options.empty() || command.overrides) text += "\n";
  for (const Option& option : command.options) {
    bool letter = option.also.size() == 1;
    line(absl::StrCat("--", Abseil(option.name), letter ? ", -" : "",
                      Abseil(letter ? option.also : ""), option.value.empty() ? "" : " ",
                      Abseil(option.value)),
         option.help);
  }
  if (command.overrides) {
    line("--SECTION.KEY=VALUE", "lay a value over the recipe; also --SECTION.KEY VALUE and");
    line("", "SECTION.KEY=VALUE; null sets null, --SECTION.KEY- takes a key out");
  }
  if (!command.notes.empty()) absl::StrAppend(&text, "\n", Abseil(command.notes), "\n");
  if (!command.examples.empty()) {
    absl::StrAppend(&text, "\nExamples:\n", Abseil(command.examples), "\n");
  }
  return text;
}

}  // namespace am::cli

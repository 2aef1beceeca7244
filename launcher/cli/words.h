// The words after a command, split by its table of options. Pure.
//
// A known option wins: `--name value`, `--name=value`, or alone where it is a flag. Any other
// `--name[.name…]` whose first part is a section of a recipe is an override: with `=value`, with
// the next word, or `true` where the next word begins with `--` or is missing; `--name-` takes a
// key out, `a.b=value` is an override, too. What follows `--` is plain. All else is an error that
// names the nearest option or section.
//   AM_ASSIGN_OR_RETURN(Words words, SplitWords(kPlanCommand, context.args));
//   AM_ASSIGN_OR_RETURN(std::optional<int> nodes, words.Count("nodes"));
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/cli/command.h"
#include "launcher/recipe/override.h"

namespace am::cli {

struct Words {
  std::vector<std::string> plain;  // neither options nor overrides: recipes, keys
  std::vector<recipe::Override> overrides;
  std::vector<std::pair<std::string, std::string>> options;  // as given; a flag's value is empty

  bool Has(std::string_view option) const;
  // The last one given.
  std::optional<std::string> Value(std::string_view option) const;
  // All that were given, of an option that may be repeated.
  std::vector<std::string> Values(std::string_view option) const;
  // A whole number from 1 to 2^20.
  absl::StatusOr<std::optional<int>> Count(std::string_view option) const;
};

absl::StatusOr<Words> SplitWords(const Command& command, const std::vector<std::string>& words);

// The only plain word, of a command that takes one recipe.
absl::StatusOr<std::string> TheRecipe(const Words& words);

}  // namespace am::cli

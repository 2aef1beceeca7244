// The words after `amctl run`: options of the command, overrides of the recipe, and the recipe
// itself. Pure.
//
// A known option wins; any other `--name[.name…]` whose first part is a section of a recipe is an
// override, with `=value`, with the next word, or `true` where the next word begins with `--` or is
// missing; `a.b=value` is one too. All else is an error.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace am::cli {

struct RunWords {
  std::string recipe;
  std::optional<int> nproc_per_node;
  int nodes = 1;
  std::string cluster = "local";
  bool fresh = false;
  bool strict = false;
  std::string state_dir;               // empty: the standard one
  std::vector<std::string> overrides;  // for recipe::ParseOverrides
};

absl::StatusOr<RunWords> ParseRunWords(const std::vector<std::string>& words);

}  // namespace am::cli

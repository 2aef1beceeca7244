// The resolved recipe for people and programs: what holds, and where each value comes from.
//   dim: 16      # recipe.yaml:14
//   lr: 1e-4     # --optimizer.lr=1e-4
//   cache_dir: ${HF_HOME}  # recipe.yaml:9, environment HF_HOME
//   alpha: 32    # default
// The text loads to the same recipe; secrets are starred out, variables are not expanded.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "launcher/recipe/recipe.h"

namespace am::recipe {

struct PrintOptions {
  bool defaults = false;  // also what the recipe is silent about, of the sections that hold
};

std::string PrintWithOrigins(const Recipe& recipe, const PrintOptions& options = {});

// {"recipe": {…}, "origins": {"optimizer.lr": {"kind": "file", "file", "line", "column"}, …}};
// kinds are file, override and default; "environment" lists variables. A value that holds something
// of the environment or a secret is given as it was written.
nlohmann::json JsonWithOrigins(const Recipe& recipe, const PrintOptions& options = {});

// The names of the variables in a text: ${A}, ${oc.env:A,x}, $A; `$$` is none.
std::vector<std::string> VariablesOf(std::string_view text);

}  // namespace am::recipe

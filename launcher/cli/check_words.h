// The words after `amctl validate` and `amctl plan`: options, overrides of the recipe, and recipes.
// Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "launcher/recipe/override.h"

namespace am::cli {

struct CheckWords {
  std::vector<std::string> recipes;
  std::optional<std::string> cluster;
  std::optional<int> nodes;
  std::optional<int> ranks_per_node;  // --gpus-per-node, --nproc-per-node
  bool json = false;
  bool strict = false;
  bool check_paths = false;  // the model, the data and every variable have to be there
  std::vector<recipe::Override> overrides;

  // Any of them asks for the layout on real machines.
  bool names_machines() const { return cluster || nodes || ranks_per_node; }
};

absl::StatusOr<CheckWords> ParseCheckWords(const std::vector<std::string>& words);

}  // namespace am::cli

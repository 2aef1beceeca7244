// What `validate` and `plan` have in common: a recipe is loaded, laid out where machines are named,
// and everything there is to say about it gathered. Starts nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/cli/words.h"
#include "launcher/plan/cluster.h"
#include "launcher/plan/plan.h"
#include "launcher/recipe/diagnostic.h"

namespace am::cli {

struct CheckOptions {
  std::vector<recipe::Override> overrides;
  std::optional<std::string> cluster;
  std::optional<int> nodes;
  std::optional<int> ranks_per_node;
  std::optional<std::string> flops_convention;
  bool strict = false;
  bool check_paths = false;  // what the recipe names has to be there

  // Any of them asks for the layout on real machines.
  bool names_machines() const { return cluster || nodes || ranks_per_node; }
};

// Of the options --cluster, --nodes, --gpus-per-node, --strict and --check-paths.
absl::StatusOr<CheckOptions> ReadCheckOptions(const Words& words);

struct Checked {
  std::optional<recipe::Recipe> recipe;     // where it could be read
  std::optional<model::ModelConfig> model;  // where it is known
  std::optional<plan::Plan> plan;           // where a cluster was given and nothing is wrong
  recipe::Diagnostics diagnostics;
};

// The cluster that a command names. Nothing where it cannot be had; `out` then says why, at its
// place in the cluster's file.
std::optional<plan::Cluster> NamedCluster(const std::string& name, recipe::Diagnostics& out);

// Without a cluster only what no machines at all could meet is refused.
Checked Check(const std::string& path, const CheckOptions& options,
              const std::optional<plan::Cluster>& cluster);

// What the environment says; nothing where it is silent.
std::optional<std::string> EnvironmentVariable(const std::string& name);

// Colour where a person reads it.
bool WantsColor(const std::ostream& stream);

// Writes what there is to say; on a terminal with the lines of the recipe that it is about.
void Tell(std::ostream& stream, recipe::Diagnostics diagnostics,
          recipe::Severity least = recipe::Severity::kWarning);

}  // namespace am::cli

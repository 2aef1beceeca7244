// PrepareJob: a recipe and what was asked for beside it become a job: loaded, laid out on a
// cluster, and turned into what the ranks are told. `amctl run` and the controller (submit.h) share
// it.
//
// Looks at the file system (the recipe, the model's directory, the data) and starts nothing. On any
// thread.
//   PreparedJob prepared = PrepareJob({.load = {.path = "recipe.yaml"}, .ranks_per_node = 2},
//   cluster); err << recipe::RenderText(prepared.diagnostics); if (!prepared.spec) return
//   kExitUsage;
#pragma once

#include <optional>
#include <string>

#include "controller/job/job.h"
#include "launcher/plan/cluster.h"
#include "launcher/recipe/load.h"

namespace am::controller {

struct PrepareOptions {
  recipe::LoadOptions load;  // `strict` counts for all that is said, the environment for all paths
  std::optional<int> nodes;  // nothing: the cluster's
  std::optional<int> ranks_per_node;
  std::string job_id;             // empty: it has none yet
  std::string working_directory;  // relative paths are relative to it; empty: the process's
  int cores = 0;                  // of a node; 0: a rank asks its own machine
  bool fresh = false;             // never resume
};

struct PreparedJob {
  std::optional<JobSpec> spec;  // nothing where there is an error
  recipe::Diagnostics diagnostics;
};

PreparedJob PrepareJob(const PrepareOptions& options, const plan::Cluster& cluster);

}  // namespace am::controller

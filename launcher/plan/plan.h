// Plan: how a recipe is laid out on a cluster, with the reason for each number. Immutable; pure:
// same input, same plan.
//
//   PlanResult result = MakePlan(recipe, cluster, {.nodes = 2});
//   out << ToJson(*result.plan).dump(2);                     // the names are fixed:
//   docs/architecture.md
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launcher/model/config.h"
#include "launcher/plan/batch.h"
#include "launcher/plan/cluster.h"
#include "launcher/plan/parallel_dims.h"
#include "launcher/plan/placement.h"
#include "launcher/recipe/recipe.h"

namespace am::plan {

struct PlanOptions {
  // Each overrides what the cluster says; nothing: all nodes of the cluster; a rank for each GPU,
  // one where there is none.
  std::optional<int> nodes;
  std::optional<int> ranks_per_node;  // --gpus-per-node, --nproc-per-node
  // Of the recipe's model where it could be read: head counts are then checked.
  std::optional<am::model::ModelConfig> model;
};

struct Plan {
  std::string cluster;
  int nodes = 1;
  int ranks_per_node = 1;
  bool on_gpus = false;
  ParallelDims dims;
  std::string strategy;  // "fsdp2", "ddp", "megatron_fsdp"
  Batch batch;
  std::optional<int> virtual_stages;        // stages a rank, nothing without pipeline
  std::optional<int64_t> micro_batch_size;  // of the pipeline; the local batch without one
  std::optional<int64_t> seq_length;        // where the recipe fixes it
  std::vector<PlannedRank> ranks;
  std::vector<PlannedAxis> axes;
  int segment_nodes = 1;           // placement.h
  std::vector<std::string> hosts;  // by node; empty where the cluster does not name its nodes
  std::vector<std::string> reasons;
};

struct PlanResult {
  std::optional<Plan> plan;  // nothing where there is an error
  recipe::Diagnostics diagnostics;
};

PlanResult MakePlan(const recipe::Recipe& recipe, const Cluster& cluster,
                    const PlanOptions& options = {});

// Checks of a recipe alone: what no cluster at all could meet. For `validate` without --cluster.
recipe::Diagnostics CheckWithoutCluster(const recipe::Recipe& recipe,
                                        const std::optional<model::ModelConfig>& model = {});

nlohmann::json ToJson(const Plan& plan, const recipe::Diagnostics& diagnostics);
// For people: a screen of text.
std::string ToText(const Plan& plan);

}  // namespace am::plan

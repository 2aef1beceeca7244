// Plan: how a recipe is laid out on a cluster and what that takes, with the reason for each number.
// Immutable; pure: same input, same plan.
//
//   PlanResult result = MakePlan(recipe, cluster, {.nodes = 2, .model = config});
//   out << ToText(*result.plan, result.diagnostics);   // a page, for people
//   WriteJson(out, *result.plan, result.diagnostics);  // for programs; the names are fixed:
//   docs/plan.md
#pragma once

#include <iosfwd>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "launcher/model/config.h"
#include "launcher/plan/batch.h"
#include "launcher/plan/cluster.h"
#include "launcher/plan/estimate.h"
#include "launcher/plan/parallel_dims.h"
#include "launcher/plan/placement.h"
#include "launcher/recipe/recipe.h"

namespace am::plan {

struct PlanOptions {
  // Each overrides what the cluster says; nothing: all nodes of the cluster; a rank for each GPU,
  // one where there is none.
  std::optional<int> nodes;
  std::optional<int> ranks_per_node;  // --gpus-per-node, --nproc-per-node
  // Of the recipe's model where it could be read: head counts are then checked, parameters, memory
  // and time estimated.
  std::optional<am::model::ModelConfig> model;
  std::optional<int64_t> seq_length;            // instead of the recipe's
  std::optional<std::string> flops_convention;  // flops.h
};

struct Plan {
  std::string cluster;
  NodeShape node;
  int nodes = 1;
  int ranks_per_node = 1;
  bool on_gpus = false;
  ParallelDims dims;
  std::string strategy;  // "fsdp2", "ddp", "megatron_fsdp"
  std::string model;     // hub id or directory, as the recipe has it
  Batch batch;
  std::optional<int> virtual_stages;        // stages a rank, nothing without pipeline
  std::optional<int64_t> micro_batch_size;  // of the pipeline; the local batch without one
  std::optional<int64_t> seq_length;        // where the recipe fixes it
  std::vector<int> layers_of_stage;         // by stage; empty where the model is not known
  std::vector<PlannedRank> ranks;
  std::vector<PlannedAxis> axes;
  int segment_nodes = 1;           // placement.h
  std::vector<std::string> hosts;  // by node; empty where the cluster does not name its nodes
  Estimates estimates;
  std::vector<std::string> reasons;

  // Tokens a step takes, padding counted.
  std::optional<int64_t> tokens_per_step() const;
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

// The model's name as the recipe has it; empty where it names none.
std::string ModelName(const recipe::Recipe& recipe);

nlohmann::json ToJson(const Plan& plan, const recipe::Diagnostics& diagnostics);
// The same as text, the ranks a line each.
void WriteJson(std::ostream& out, const Plan& plan, const recipe::Diagnostics& diagnostics);

// For people: a page of 100 columns.
std::string ToText(const Plan& plan, const recipe::Diagnostics& diagnostics = {});
// Every term of an estimate with its formula. `what`: memory, time, layout.
std::string Explain(const Plan& plan, std::string_view what);

}  // namespace am::plan

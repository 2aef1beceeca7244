#include "launcher/plan/plan.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "launcher/plan/rules.h"

namespace am::plan {
namespace {

int RanksPerNode(const Cluster& cluster, const PlanOptions& options) {
  if (options.ranks_per_node) return *options.ranks_per_node;
  return std::max(1, cluster.node.gpus);
}

std::optional<int64_t> SequenceLength(const recipe::Recipe& recipe) {
  for (const char* key : {"packed_sequence.packed_sequence_size", "packed_sequence.pack_size"}) {
    if (int64_t size = recipe.OptInt(key).value_or(0); size > 0) return size;
  }
  // Which of the two a data set knows depends on its part.
  for (const char* key : {"dataset.seq_length", "dataset.seq_len"}) {
    const recipe::Value* value = recipe.Find(key);
    const auto* length = value ? std::get_if<int64_t>(&value->data) : nullptr;
    if (length && *length > 0) return *length;
  }
  return std::nullopt;
}

// Recipes of other kinds may have no batch sizes of their own.
std::optional<Batch> BatchOf(const recipe::Recipe& recipe, int dp, recipe::Diagnostics& out) {
  if (!recipe.Has("step_scheduler") && recipe.kind() != "finetune") return Batch{};
  return ResolveBatch(recipe, dp, out);
}

std::vector<std::string> Reasons(const Plan& plan, const Cluster& cluster) {
  const ParallelDims& d = plan.dims;
  std::vector<std::string> reasons;
  reasons.push_back(absl::StrCat("world ", d.world(), " = ", plan.nodes,
                                 plan.nodes == 1 ? " node · " : " nodes · ", plan.ranks_per_node,
                                 plan.on_gpus ? " GPUs" : " CPU ranks", " of ", cluster.name));
  reasons.push_back(absl::StrCat("dp ", d.dp(), " = world ", d.world(), " / (tp ", d.tp, " · cp ",
                                 d.cp, " · pp ", d.pp, ")"));
  if (plan.strategy == "ddp") {
    reasons.push_back("ddp: every rank holds the whole model");
  } else {
    std::string copies =
        d.dp_replicate > 1 ? absl::StrCat(", and copied ", d.dp_replicate, " times") : "";
    reasons.push_back(absl::StrCat("weights, gradients and moments are sharded over dp_shard ",
                                   d.dp_shard, " · cp ", d.cp, " = ", d.dp_shard * d.cp, " ranks",
                                   copies));
  }
  if (!plan.batch.reason.empty()) reasons.push_back(plan.batch.reason);
  if (d.ep > 1) {
    reasons.push_back(absl::StrCat("experts: ep ", d.ep, " · ep_shard ", d.ep_shard(),
                                   " = the ranks of a stage, contiguous"));
  }
  return reasons;
}

}  // namespace

PlanResult MakePlan(const recipe::Recipe& recipe, const Cluster& cluster,
                    const PlanOptions& options) {
  PlanResult result;
  recipe::Diagnostics& out = result.diagnostics;
  Plan plan{.cluster = cluster.name,
            .nodes = options.nodes.value_or(cluster.nodes),
            .ranks_per_node = RanksPerNode(cluster, options),
            .on_gpus = cluster.has_gpus(),
            .strategy = recipe.String("distributed.strategy")};
  if (!CheckMachines(cluster, plan.nodes, plan.ranks_per_node, out)) return result;
  if (options.model) CheckModel(recipe, *options.model, out);
  if (recipe::HasErrors(out)) return result;
  std::optional<ParallelDims> dims = DeriveDims(recipe, plan.nodes * plan.ranks_per_node, out);
  if (!dims) return result;
  plan.dims = *dims;
  std::optional<Batch> batch = BatchOf(recipe, plan.dims.dp(), out);
  if (!batch) return result;
  plan.batch = *batch;
  if (plan.dims.pp > 1) {
    std::optional<PipelineStages> stages =
        CutPipeline(recipe, plan.dims, plan.batch, options.model, out);
    if (!stages) return result;
    plan.virtual_stages = stages->virtual_stages;
    plan.micro_batch_size = stages->micro_batch_size;
  } else if (plan.batch.local_batch_size > 0) {
    plan.micro_batch_size = plan.batch.local_batch_size;
  }
  plan.seq_length = SequenceLength(recipe);
  Placement placement = Place(plan.dims, cluster, plan.nodes, plan.ranks_per_node);
  for (const PlacementNote& note : placement.notes) {
    recipe.Report(out, note.severity, note.key, note.message, note.hint);
  }
  plan.ranks = std::move(placement.ranks);
  plan.axes = std::move(placement.axes);
  plan.segment_nodes = placement.segment_nodes;
  plan.hosts = std::move(placement.hosts);
  plan.reasons = Reasons(plan, cluster);
  if (!placement.segment_reason.empty()) plan.reasons.push_back(placement.segment_reason);
  result.plan = std::move(plan);
  return result;
}

recipe::Diagnostics CheckWithoutCluster(const recipe::Recipe& recipe,
                                        const std::optional<model::ModelConfig>& model) {
  // What the smallest world cannot meet, no multiple of it can: dp only ever grows by whole
  // factors.
  recipe::Diagnostics out;
  if (model) CheckModel(recipe, *model, out);
  if (recipe::HasErrors(out)) return out;
  std::optional<ParallelDims> dims = DeriveDims(recipe, SmallestWorld(recipe), out);
  if (!dims) return out;
  std::optional<Batch> batch = BatchOf(recipe, dims->dp(), out);
  if (batch) CutPipeline(recipe, *dims, *batch, model, out);
  return out;
}

}  // namespace am::plan

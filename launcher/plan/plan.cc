#include "launcher/plan/plan.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <set>

#include "launcher/plan/rules.h"

namespace am::plan {
namespace {

constexpr int64_t kMostRanks = 1 << 20;

int RanksPerNode(const Cluster& cluster, const PlanOptions& options) {
  if (options.ranks_per_node) return *options.ranks_per_node;
  return std::max(1, cluster.node.gpus);
}

bool CheckMachines(const Cluster& cluster, int nodes, int ranks_per_node,
                   recipe::Diagnostics& out) {
  auto refuse = [&](std::string message, std::string hint) {
    out.push_back({.message = std::move(message), .hint = std::move(hint)});
    return false;
  };
  if (nodes < 1 || ranks_per_node < 1 || int64_t{nodes} * ranks_per_node > kMostRanks) {
    return refuse(absl::StrCat(nodes, " nodes of ", ranks_per_node, " ranks"),
                  "both must be 1 or more");
  }
  if (cluster.has_gpus() && ranks_per_node > cluster.node.gpus) {
    return refuse(absl::StrCat(ranks_per_node, " ranks a node, but a node of ", cluster.name,
                               " has ", cluster.node.gpus, " GPUs"),
                  absl::StrCat("use at most ", cluster.node.gpus));
  }
  return true;
}

std::vector<PlannedRank> PlaceRanks(const Plan& plan, const NodeShape& node) {
  DeviceMesh mesh(plan.dims);
  std::vector<PlannedRank> ranks;
  ranks.reserve(static_cast<size_t>(plan.dims.world()));
  for (int rank = 0; rank < plan.dims.world(); ++rank) {
    PlannedRank placed{.rank = rank,
                       .node = rank / plan.ranks_per_node,
                       .local_rank = rank % plan.ranks_per_node,
                       .place = mesh.At(rank)};
    int gpu = placed.node * node.gpus + placed.local_rank;
    placed.nvlink_domain =
        node.nvlink_domain_gpus > 0 ? gpu / node.nvlink_domain_gpus : placed.node;
    ranks.push_back(placed);
  }
  return ranks;
}

// The slowest link that some group of the axis has to use.
std::string FabricOf(const std::vector<std::vector<int>>& groups, const Plan& plan,
                     const NodeShape& node) {
  bool one_node = true, one_domain = node.nvlink_domain_gpus > 1;
  for (const std::vector<int>& group : groups) {
    std::set<int> nodes, domains;
    for (int rank : group) {
      nodes.insert(plan.ranks[static_cast<size_t>(rank)].node);
      domains.insert(plan.ranks[static_cast<size_t>(rank)].nvlink_domain);
    }
    one_node = one_node && nodes.size() == 1;
    one_domain = one_domain && domains.size() == 1;
  }
  if (one_domain) return "nvlink";
  return one_node ? "host" : "network";
}

std::vector<PlannedAxis> DescribeAxes(const Plan& plan, const NodeShape& node) {
  DeviceMesh mesh(plan.dims);
  std::vector<PlannedAxis> axes;
  for (MeshAxis axis : kMeshAxes) {
    PlannedAxis described{.axis = axis, .size = mesh.Size(axis), .fabric = "none"};
    if (described.size > 1) described.fabric = FabricOf(mesh.Groups(axis), plan, node);
    axes.push_back(described);
  }
  return axes;
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
  plan.ranks = PlaceRanks(plan, cluster.node);
  plan.axes = DescribeAxes(plan, cluster.node);
  plan.reasons = Reasons(plan, cluster);
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

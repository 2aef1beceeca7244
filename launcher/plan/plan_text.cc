// A plan as JSON, for programs, and as a screen of text, for people.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include "launcher/plan/plan.h"

namespace am::plan {
namespace {

using nlohmann::json;

template <typename T>
json OrNull(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json Positive(int64_t value) { return value > 0 ? json(value) : json(nullptr); }

json RankJson(const PlannedRank& rank) {
  const MeshPlace& p = rank.place;
  return {{"rank", rank.rank},
          {"node", rank.node},
          {"local_rank", rank.local_rank},
          {"nvlink_domain", rank.nvlink_domain},
          {"pp", p.pp},
          {"dp_replicate", p.dp_replicate},
          {"dp_shard", p.dp_shard},
          {"cp", p.cp},
          {"tp", p.tp},
          {"ep", p.ep},
          {"ep_shard", p.ep_shard}};
}

}  // namespace

json ToJson(const Plan& plan, const recipe::Diagnostics& diagnostics) {
  const ParallelDims& d = plan.dims;
  json out = {
      {"cluster", plan.cluster},
      {"strategy", plan.strategy},
      {"world_size", d.world()},
      {"nodes", plan.nodes},
      {"gpus_per_node", plan.ranks_per_node},
      {"dp_size", d.dp()},
      {"dp_replicate", d.dp_replicate},
      {"dp_shard", d.dp_shard},
      {"fsdp_shard_size", plan.strategy == "ddp" ? 1 : d.dp_shard * d.cp},
      {"tp_size", d.tp},
      {"cp_size", d.cp},
      {"pp_size", d.pp},
      {"ep_size", d.ep},
      {"ep_shard", d.ep_shard()},
      {"virtual_stages", OrNull(plan.virtual_stages)},
      {"global_batch_size", Positive(plan.batch.global_batch_size)},
      {"local_batch_size", Positive(plan.batch.local_batch_size)},
      {"micro_batch_size", OrNull(plan.micro_batch_size)},
      {"grad_acc_steps", Positive(plan.batch.grad_acc_steps)},
      {"seq_length", OrNull(plan.seq_length)},
      {"tokens_per_step",
       plan.seq_length ? Positive(*plan.seq_length * plan.batch.global_batch_size) : json()},
      {"reasons", plan.reasons},
      {"diagnostics", recipe::ToJson(diagnostics)}};
  out["ranks"] = json::array();
  for (const PlannedRank& rank : plan.ranks) out["ranks"].push_back(RankJson(rank));
  out["axes"] = json::array();
  for (const PlannedAxis& axis : plan.axes) {
    out["axes"].push_back(
        {{"name", Name(axis.axis)}, {"size", axis.size}, {"fabric", axis.fabric}});
  }
  return out;
}

std::string ToText(const Plan& plan) {
  const ParallelDims& d = plan.dims;
  std::string out = absl::StrFormat("%s: %d %s × %d %s = %d ranks, %s\n", plan.cluster, plan.nodes,
                                    plan.nodes == 1 ? "node" : "nodes", plan.ranks_per_node,
                                    plan.on_gpus ? "GPUs" : "CPU ranks", d.world(), plan.strategy);
  absl::StrAppend(&out, "\n  axis          size  fabric\n");
  for (const PlannedAxis& axis : plan.axes) {
    absl::StrAppend(&out, absl::StrFormat("  %-12s %5d  %s\n", std::string(Name(axis.axis)),
                                          axis.size, axis.fabric));
  }
  const Batch& batch = plan.batch;
  if (batch.global_batch_size > 0) {
    absl::StrAppend(&out, absl::StrFormat("\n  global batch %d = local batch %d · dp %d · %d "
                                          "micro-batches\n",
                                          batch.global_batch_size, batch.local_batch_size, d.dp(),
                                          batch.grad_acc_steps));
  }
  absl::StrAppend(&out, "\n");
  for (const std::string& reason : plan.reasons) absl::StrAppend(&out, "  ", reason, "\n");
  return out;
}

}  // namespace am::plan

// A plan as JSON, for programs.
#include <ostream>

#include "launcher/plan/plan.h"

namespace am::plan {
namespace {

using nlohmann::json;

template <typename T>
json OrNull(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json Positive(int64_t value) { return value > 0 ? json(value) : json(nullptr); }
json Positive(double value) { return value > 0 ? json(value) : json(nullptr); }

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

json MemoryJson(const Estimates& e) {
  json out = {{"parameters", nullptr},  {"gradients", nullptr}, {"optimizer", nullptr},
              {"activations", nullptr}, {"buffers", nullptr},   {"overhead", nullptr},
              {"total", nullptr},       {"limit", nullptr},     {"fits", nullptr}};
  if (!e.memory) return out;
  const RankMemory& worst = e.memory->worst;
  out["parameters"] = worst.parameters;
  out["gradients"] = worst.gradients;
  out["optimizer"] = worst.optimizer;
  out["limit"] = Positive(e.memory->limit);
  if (e.workload->seq_length <= 0) return out;
  out["activations"] = worst.activations;
  out["buffers"] = worst.buffers;
  out["overhead"] = worst.overhead;
  out["total"] = worst.total();
  if (e.memory->limit > 0) out["fits"] = e.memory->fits();
  return out;
}

json StagesJson(const Plan& plan) {
  json stages = json::array();
  int from = 0;
  for (size_t stage = 0; stage < plan.layers_of_stage.size(); ++stage) {
    int layers = plan.layers_of_stage[stage];
    json one = {{"stage", stage},
                {"pp", static_cast<int>(stage) % plan.dims.pp},
                {"first_layer", layers > 0 ? json(from) : json(nullptr)},
                {"layers", layers}};
    stages.push_back(std::move(one));
    from += layers;
  }
  return stages;
}

json TermsJson(const std::vector<Term>& terms) {
  json out = json::array();
  for (const Term& term : terms) {
    out.push_back({{"name", term.name}, {"value", term.value}, {"formula", term.formula}});
  }
  return out;
}

json WithoutRanks(const Plan& plan, const recipe::Diagnostics& diagnostics) {
  const ParallelDims& d = plan.dims;
  const Estimates& e = plan.estimates;
  const StepTimeEstimate* time = e.step_time ? &*e.step_time : nullptr;
  json out = {
      {"cluster", plan.cluster},
      {"model", plan.model.empty() ? json(nullptr) : json(plan.model)},
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
      {"stages", StagesJson(plan)},
      {"segment_nodes", plan.segment_nodes},
      {"global_batch_size", Positive(plan.batch.global_batch_size)},
      {"local_batch_size", Positive(plan.batch.local_batch_size)},
      {"micro_batch_size", OrNull(plan.micro_batch_size)},
      {"grad_acc_steps", Positive(plan.batch.grad_acc_steps)},
      {"seq_length", OrNull(plan.seq_length)},
      {"tokens_per_step", OrNull(plan.tokens_per_step())},
      {"parameters", OrNull(e.parameters)},
      {"active_parameters", OrNull(e.active_parameters)},
      {"parameters_per_stage", e.parameters_of_stage},
      {"parameters_per_rank", e.parameters_of_rank},
      {"flops_convention", e.flops_convention.empty() ? json(nullptr) : json(e.flops_convention)},
      {"model_flops_per_step", OrNull(e.model_flops_per_step)},
      {"memory_gib", MemoryJson(e)},
      {"activation_checkpointing", nullptr},
      {"activation_checkpointing_assumed", nullptr},
      {"predicted_step_time_s", time ? json(time->seconds) : json(nullptr)},
      {"predicted_step_time_low_s", time ? Positive(time->low_seconds) : json(nullptr)},
      {"predicted_step_time_high_s", time ? Positive(time->high_seconds) : json(nullptr)},
      {"predicted_tokens_per_s", time ? json(time->tokens_per_s) : json(nullptr)},
      {"predicted_tflops_per_gpu", OrNull(e.tflops_per_gpu)},
      {"predicted_mfu", OrNull(e.mfu)},
      {"step_time_terms", time ? TermsJson(time->terms) : json::array()},
      {"steps", OrNull(e.length.steps)},
      {"days", OrNull(e.cost.days)},
      {"gpu_hours", OrNull(e.cost.gpu_hours)},
      {"cost", OrNull(e.cost.price)},
      {"reasons", plan.reasons},
      {"unknown", e.unknown},
      {"diagnostics", recipe::ToJson(diagnostics)}};
  if (e.workload) {
    out["activation_checkpointing"] = Name(e.workload->recompute);
    out["activation_checkpointing_assumed"] = e.workload->recompute_assumed;
  }
  out["axes"] = json::array();
  for (const PlannedAxis& axis : plan.axes) {
    out["axes"].push_back({{"name", Name(axis.axis)},
                           {"size", axis.size},
                           {"fabric", axis.fabric},
                           {"gb_per_s", Positive(axis.gb_per_s)},
                           {"groups", axis.groups},
                           {"groups_cut", axis.groups_cut}});
  }
  if (!plan.hosts.empty()) out["hosts"] = plan.hosts;
  return out;
}

}  // namespace

json ToJson(const Plan& plan, const recipe::Diagnostics& diagnostics) {
  json out = WithoutRanks(plan, diagnostics);
  json& ranks = out["ranks"] = json::array();
  for (const PlannedRank& rank : plan.ranks) ranks.push_back(RankJson(rank));
  return out;
}

void WriteJson(std::ostream& out, const Plan& plan, const recipe::Diagnostics& diagnostics) {
  // Ranks by hand: a tree of 16,384 small maps would take longer than the plan.
  std::string text =
      WithoutRanks(plan, diagnostics).dump(2, ' ', false, json::error_handler_t::replace);
  text.resize(text.size() - 2);  // "\n}"
  text += ",\n  \"ranks\": [";
  auto add = [&](const char* name, int value, const char* before = ", \"") {
    text += before;
    text += name;
    text += "\": ";
    text += std::to_string(value);
  };
  for (const PlannedRank& rank : plan.ranks) {
    const MeshPlace& p = rank.place;
    text += rank.rank == 0 ? "\n    " : ",\n    ";
    add("rank", rank.rank, "{\"");
    add("node", rank.node);
    add("local_rank", rank.local_rank);
    add("nvlink_domain", rank.nvlink_domain);
    add("pp", p.pp);
    add("dp_replicate", p.dp_replicate);
    add("dp_shard", p.dp_shard);
    add("cp", p.cp);
    add("tp", p.tp);
    add("ep", p.ep);
    add("ep_shard", p.ep_shard);
    text += "}";
  }
  text += "\n  ]\n}\n";
  out << text;
}

}  // namespace am::plan

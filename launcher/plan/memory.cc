#include "launcher/plan/memory.h"

#include <algorithm>

#include "launcher/plan/memory_stage.h"

namespace am::plan {

std::string CountText(double value) {
  return value >= 1e7
             ? absl::StrFormat("%.3ge%d", value / (value >= 1e9 ? 1e9 : 1e6), value >= 1e9 ? 9 : 6)
             : absl::StrFormat("%.6g", value);
}

Prepared::Prepared(const Workload& workload)
    : contents(ContentOfStages(workload)),
      dense_shards(DenseShards(workload)),
      expert_shards(ExpertShards(workload)) {
  const model::ModelShape& shape = *workload.shape;
  kinds.reserve(shape.kinds.size());
  activations.reserve(shape.kinds.size());
  for (const model::Layer& layer : shape.kinds) {
    kinds.push_back(HeldOf(workload, layer.weights));
    activations.push_back(ActivationsOf(workload, layer));
  }
  embedding = HeldOf(workload, shape.embedding, false);
  head = HeldOf(workload, shape.head, false);
  for (const model::Layer& tower : shape.towers) {
    HeldNumbers held = HeldOf(workload, tower.weights);
    if (!workload.trains_towers) {
      held.dense.frozen += held.dense.trained;
      held.dense.trained = 0;
    }
    towers += held;
  }
  if (shape.mtp && workload.mtp_depths > 0) {
    mtp = HeldOf(workload, shape.mtp->weights);
    mtp_activations = ActivationsOf(workload, *shape.mtp);
  }
  int64_t micro =
      workload.micro_batch_size > 0 ? workload.micro_batch_size : workload.local_batch_size;
  micro_batches =
      workload.dims.pp > 1
          ? std::max<int64_t>(1, workload.local_batch_size / std::max<int64_t>(1, micro))
          : 1;
  if (workload.dims.pp == 1) micro = workload.local_batch_size;
  tokens = static_cast<double>(micro * workload.seq_length) / workload.dims.cp;
  accumulates = workload.grad_acc_steps > 1 || micro_batches > 1;
}

StageCounter::StageCounter(const Workload& workload, const Prepared& prepared, int stage,
                           RankMemory& sums, std::vector<Term>* terms)
    : w_(workload),
      p_(prepared),
      stage_(stage),
      content_(prepared.contents[stage]),
      ledger_(sums, terms) {
  for (size_t kind = 0; kind < p_.kinds.size(); ++kind) {
    if (content_.layers_of_kind[kind] == 0) continue;
    held_ += content_.layers_of_kind[kind] * p_.kinds[kind];
    if (p_.kinds[kind].Sum() > largest_.Sum()) largest_ = p_.kinds[kind];
  }
  if (content_.first) {
    ends_ += p_.embedding;
    ends_ += p_.towers;
  }
  if (content_.last) {
    ends_ += p_.head;
    held_ += p_.mtp;
  }
  held_ += ends_;
}

void StageCounter::Count() {
  Parameters();
  Gradients();
  Optimizer();
  LayerActivationsInFlight();
  AtWork();
  Buffers();
  Overhead();
}

namespace {

double LimitOf(const Workload& workload) {
  if (workload.node.gpus > 0) return workload.node.memory_limit_gib();
  return workload.node.memory_gib / std::max(1, workload.ranks_per_node);
}

}  // namespace

MemoryEstimate EstimateMemory(const Workload& workload) {
  Prepared prepared(workload);
  MemoryEstimate estimate;
  estimate.limit = LimitOf(workload);
  estimate.stages.resize(workload.dims.pp);
  for (int stage = 0; stage < workload.dims.pp; ++stage) {
    StageCounter(workload, prepared, stage, estimate.stages[stage], nullptr).Count();
    if (stage == 0 || estimate.stages[stage].total() > estimate.worst.total()) {
      estimate.worst = estimate.stages[stage];
      estimate.worst_stage = stage;
    }
  }
  return estimate;
}

std::vector<Term> ExplainMemory(const Workload& workload, int stage) {
  std::vector<Term> terms;
  RankMemory sums;
  StageCounter(workload, Prepared(workload), stage, sums, &terms).Count();
  return terms;
}

std::vector<Term> ExplainMemory(const Workload& workload) {
  return ExplainMemory(workload, EstimateMemory(workload).worst_stage);
}

}  // namespace am::plan

#include "launcher/plan/sharding.h"

#include <algorithm>

namespace am::plan {
namespace {

using model::Role;
using model::Weight;

bool IsAdapted(const Workload& workload, const Weight& weight) {
  const std::vector<std::string>& modules = workload.adapter->modules;
  return std::find(modules.begin(), modules.end(), weight.name) != modules.end();
}

// Of `copies` matrices or vectors, by how much tp and ep divide what a rank holds.
double Cut(const Workload& workload, const Weight& weight, bool in_layer) {
  if (weight.role == Role::kExpert && workload.dims.ep > 1) return workload.dims.ep;
  bool matrix = weight.in > 0 && weight.role != Role::kRouter && weight.role != Role::kNorm;
  bool table = in_layer && weight.uses == 0;
  return matrix && !table ? workload.dims.tp : 1;
}

}  // namespace

HeldNumbers& operator+=(HeldNumbers& a, const HeldNumbers& b) {
  auto add = [](Pool& to, const Pool& from) {
    to.trained += from.trained;
    to.frozen += from.frozen;
    to.packed += from.packed;
  };
  add(a.dense, b.dense);
  add(a.experts, b.experts);
  a.tables += b.tables;
  return a;
}

HeldNumbers operator*(double factor, HeldNumbers numbers) {
  for (Pool* pool : {&numbers.dense, &numbers.experts}) {
    pool->trained *= factor;
    pool->frozen *= factor;
    pool->packed *= factor;
  }
  numbers.tables *= factor;
  return numbers;
}

HeldNumbers HeldOf(const Workload& workload, std::span<const Weight> weights, bool in_layer) {
  HeldNumbers held;
  for (const Weight& weight : weights) {
    Pool& pool = weight.role == Role::kExpert ? held.experts : held.dense;
    double cut = Cut(workload, weight, in_layer);
    double numbers = static_cast<double>(weight.Numbers()) / cut;
    if (in_layer && weight.in > 0 && weight.uses == 0) held.tables += numbers;
    if (!workload.adapter) {
      pool.trained += numbers;
      continue;
    }
    bool packs = in_layer && weight.in > 0 && weight.uses > 0 && weight.role != Role::kRouter;
    (packs ? pool.packed : pool.frozen) += numbers;
    if (weight.in > 0 && IsAdapted(workload, weight)) {
      // A of [rank, in] and B of [out, rank]; tp cuts one of the two.
      pool.trained += static_cast<double>(weight.copies * workload.adapter->rank) *
                      static_cast<double>(weight.in + weight.out) / cut;
    }
  }
  return held;
}

double DenseShards(const Workload& workload) {
  return workload.strategy == "ddp" ? 1 : workload.dims.dp_shard * workload.dims.cp;
}

double ExpertShards(const Workload& workload) {
  return workload.dims.ep > 1 ? workload.dims.ep_shard() : DenseShards(workload);
}

std::vector<StageContent> ContentOfStages(const Workload& workload) {
  const model::ModelShape& shape = *workload.shape;
  const int pp = workload.dims.pp;
  const int stages = pp * std::max(1, workload.virtual_stages);
  const int layers = static_cast<int>(shape.layers.size());
  const bool listed = static_cast<int>(workload.layers_of_stage.size()) == stages;
  std::vector<StageContent> contents(pp);
  for (StageContent& content : contents) content.layers_of_kind.resize(shape.kinds.size());
  int depth = 0;
  for (int stage = 0; stage < stages; ++stage) {
    StageContent& content = contents[stage % pp];
    int count = listed ? workload.layers_of_stage[stage]
                       : layers / stages + (stage < layers % stages ? 1 : 0);
    for (int end = std::min(layers, depth + count); depth < end; ++depth) {
      ++content.layers_of_kind[shape.layers[depth]];
      ++content.layers;
    }
  }
  contents.front().first = true;
  contents.back().last = true;
  return contents;
}

namespace {

template <class Ends, class Layer>
double SumOfStage(const Workload& workload, int stage, const Ends& ends, const Layer& layer) {
  const model::ModelShape& shape = *workload.shape;
  const StageContent content = ContentOfStages(workload)[stage];
  double sum = 0;
  for (size_t kind = 0; kind < shape.kinds.size(); ++kind)
    sum += content.layers_of_kind[kind] * layer(shape.kinds[kind]);
  if (content.first) {
    sum += ends(shape.embedding);
    for (const model::Layer& tower : shape.towers) sum += layer(tower);
  }
  if (content.last) {
    sum += ends(shape.head);
    if (workload.mtp_depths > 0 && shape.mtp) sum += layer(*shape.mtp);
  }
  return sum;
}

}  // namespace

double ParametersOfStage(const Workload& workload, int stage) {
  auto ends = [](const std::vector<Weight>& weights) {
    double sum = 0;
    for (const Weight& weight : weights) sum += static_cast<double>(weight.Numbers());
    return sum;
  };
  return SumOfStage(workload, stage, ends,
                    [&](const model::Layer& layer) { return ends(layer.weights); });
}

double ParametersOfRank(const Workload& workload, int stage) {
  Workload whole = workload;  // adapters are no part of the model
  whole.adapter.reset();
  auto kept = [&](const HeldNumbers& held) {
    return held.dense.Sum() / DenseShards(whole) + held.experts.Sum() / ExpertShards(whole);
  };
  return SumOfStage(
      whole, stage,
      [&](const std::vector<Weight>& weights) { return kept(HeldOf(whole, weights, false)); },
      [&](const model::Layer& layer) { return kept(HeldOf(whole, layer.weights)); });
}

}  // namespace am::plan

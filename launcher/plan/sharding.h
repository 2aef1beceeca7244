// Sharding: how many of a model's numbers each pipeline stage has, and how many of them a rank
// holds once tp, ep and FSDP have cut them.
//   ParametersOfStage(workload, 0);  // whole
//   ParametersOfRank(workload, 0);   // what one of its ranks keeps
//
// tp cuts matrices and leaves vectors, routers and looked-up tables of layers whole; routed experts
// are spread over ep ranks where there are any, else cut by tp as other matrices are. FSDP cuts
// what then remains over dp_shard · cp, experts over ep_shard; DDP cuts nothing.
#pragma once

#include <span>
#include <vector>

#include "launcher/plan/workload.h"

namespace am::plan {

// Numbers that are cut over the same ranks.
struct Pool {
  double trained = 0;
  double frozen = 0;  // kept as computed with: embeddings, norms and routers of a frozen base
  double packed = 0;  // frozen matrices of layers: what QLoRA quantises
  double Sum() const { return trained + frozen + packed; }
};

// Of one rank before FSDP cuts them, which is also what it gathers.
struct HeldNumbers {
  Pool dense, experts;
  double tables = 0;  // of the dense ones, rows of layers that are looked up where they lie
  double Sum() const { return dense.Sum() + experts.Sum(); }
  double Trained() const { return dense.trained + experts.trained; }
};
HeldNumbers& operator+=(HeldNumbers& a, const HeldNumbers& b);
HeldNumbers operator*(double factor, HeldNumbers numbers);

// Equal weights of a layer, or of the ends where `in_layer` is false.
HeldNumbers HeldOf(const Workload& workload, std::span<const model::Weight> weights,
                   bool in_layer = true);

// Ranks that FSDP spreads a weight over.
double DenseShards(const Workload& workload);
double ExpertShards(const Workload& workload);

// What a pipeline rank computes: stages rank, rank + pp, … of the model.
struct StageContent {
  std::vector<int> layers_of_kind;  // as ModelShape::kinds
  int layers = 0;
  bool first = false;  // has the embedding
  bool last = false;   // has the head and multi-token prediction
};
std::vector<StageContent> ContentOfStages(const Workload& workload);

// Of pipeline rank `stage`, multi-token prediction included where it is trained.
double ParametersOfStage(const Workload& workload, int stage);
double ParametersOfRank(const Workload& workload, int stage);

}  // namespace am::plan

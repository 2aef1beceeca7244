// Activations: what a layer keeps of a token for its backward pass, in bytes, part by part.
//   LayerActivations kept = ActivationsOf(workload, layer);
//   kept.Whole() * tokens;
//
// Counted from the weights of the layer: a matrix that is trained (or adapted) keeps its input, a
// norm what it read, attention its query, key, value and output with a float32 log-sum-exp a head,
// a gated network both branches and their product. With one tp rank and a plain transformer this is
// Korthikanti et al. 2022 (arXiv 2205.05198), equation 1, without dropout masks. docs/memory.md has
// each formula.
#pragma once

#include <array>
#include <string_view>

#include "launcher/plan/workload.h"

namespace am::plan {

enum class LayerPart { kNorms, kInputs, kAttention, kMlp, kExperts, kScan, kStreams };
inline constexpr int kLayerParts = 7;
std::string_view Name(LayerPart part);

// Bytes a token of a sequence shard.
struct Saved {
  double whole = 0;   // on every tp rank, unless the sequence is cut, too
  double split = 0;   // cut by tp
  double routed = 0;  // of the copies that experts get; balanced; cut by tp

  Saved& operator+=(const Saved& other) {
    whole += other.whole;
    split += other.split;
    routed += other.routed;
    return *this;
  }
};

struct LayerActivations {
  std::array<Saved, kLayerParts> parts;
  Saved selective;   // what is left under selective recomputation
  double input = 0;  // the layer's input: what is left under full recomputation; whole

  Saved All() const;
  // Gradients that live while the layer runs backward: as much as its largest part keeps.
  Saved Largest() const;
};

LayerActivations ActivationsOf(const Workload& workload, const model::Layer& layer);

// Ranks on the CPU run am-rank's own kernels, whatever the recipe names: all elementwise work is
// fused, the loss's gradient takes the place of the logits.
inline bool OnCpu(const Workload& workload) { return workload.node.gpus == 0; }

// Bytes of an activation: 4 in float32, else 2.
double ActivationBytes(const Workload& workload);

// What a rank has of it: tp and the imbalance of routing applied.
double OfRank(const Workload& workload, const Saved& saved);

}  // namespace am::plan

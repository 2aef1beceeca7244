// Activations, the loss, buffers of communication and what the driver takes.
#include <algorithm>

#include "launcher/plan/memory_stage.h"

namespace am::plan {
namespace {

// A CUDA context with its loaded kernels, on Hopper; cuBLAS's workspace (32 MiB there) is in it.
// 723 MiB were measured for a process with one small tensor: discuss.pytorch.org/t/73021.
constexpr double kContextGib = 0.7;
// A communicator of NCCL. 8 H100 held 1.06 GB outside of PyTorch's allocator with one in use, the
// context included: github.com/NVIDIA/nccl/issues/1685.
constexpr double kCommunicatorGib = 0.35;
// Of what comes and goes, lost between blocks of PyTorch's allocator: an assumption.
constexpr double kFragmentation = 0.05;
// The program and its libraries, of a rank on the CPU: measured, docs/memory.md.
constexpr double kProcessGib = 0.3;
// Tokens whose logits exist at once where the loss is fused with the output projection.
constexpr double kFusedLossTokens = 1024;
// DeepEP's buffers: channels of 20 SMs, tokens of a chunk (github.com/deepseek-ai/DeepEP,
// config.hpp).
constexpr double kDeepEpChannels = 10, kDeepEpChunk = 256;

}  // namespace

double StageCounter::Held(double Pool::*part) const {
  return held_.dense.*part + held_.experts.*part;
}

double StageCounter::InFlight() const {
  int pp = w_.dims.pp, v = std::max(1, w_.virtual_stages);
  if (pp == 1) return 1;
  double most = static_cast<double>(p_.micro_batches * v);
  double chunks = v == 1 ? pp - stage_ : (pp - stage_ - 1) * 2 + (v - 1) * pp + 1;
  return std::min(most, chunks) / v;
}

double StageCounter::KeptOf(const LayerActivations& layer) const {
  switch (w_.recompute) {
    case Recompute::kNone:
      return OfRank(w_, layer.All());
    case Recompute::kSelective:
      return OfRank(w_, layer.selective);
    case Recompute::kFull:
      return OfRank(w_, {.whole = layer.input});
  }
  return 0;
}

void StageCounter::LayerActivationsInFlight() {
  double flight = InFlight();
  for (size_t kind = 0; kind < p_.kinds.size(); ++kind) {
    int layers = content_.layers_of_kind[kind];
    if (layers > 0) AddLayers(p_.activations[kind], w_.shape->kinds[kind], layers, flight);
  }
  if (content_.last && w_.mtp_depths > 0 && w_.shape->mtp)
    AddLayers(p_.mtp_activations, *w_.shape->mtp, static_cast<double>(w_.mtp_depths), 1);
}

void StageCounter::AddLayers(const LayerActivations& kept, const model::Layer& layer, double layers,
                             double flight) {
  double bytes = KeptOf(kept);
  ledger_.Add(&RankMemory::activations, "activations", layers * flight * p_.tokens * bytes, [&] {
    std::string what;
    if (w_.recompute == Recompute::kFull) {
      what = "its input";
    } else if (w_.recompute == Recompute::kSelective) {
      what = "its input, attention, every other product";
    } else {
      for (int part = 0; part < kLayerParts; ++part) {
        double of_part = OfRank(w_, kept.parts[part]);
        if (of_part > 0)
          absl::StrAppend(&what, what.empty() ? "" : " + ",
                          std::string(Name(static_cast<LayerPart>(part))), " ", CountText(of_part));
      }
    }
    std::string micro = w_.dims.pp > 1 ? absl::StrFormat(" · %.3g in flight", flight) : "";
    return absl::StrFormat("%g × %s%s · %s tokens · %s B (%s)", layers, layer.kind, micro,
                           CountText(p_.tokens), CountText(bytes), what);
  });
}

void StageCounter::AtWork() {
  Moment layer = LayerAtWork(), reduction = Reduction(), loss = LossAtWork(), ends = EndsReduced();
  if (loss.bytes >= std::max(layer.bytes + reduction.bytes, ends.bytes)) {
    ledger_.Add(&RankMemory::activations, "logits", loss.bytes, loss.formula);
  } else if (ends.bytes > layer.bytes + reduction.bytes) {
    ledger_.Add(&RankMemory::gradients, "gradients being reduced", ends.bytes, ends.formula);
  } else {
    ledger_.Add(&RankMemory::activations, "a layer at work", layer.bytes, layer.formula);
    ledger_.Add(&RankMemory::gradients, "gradients being reduced", reduction.bytes,
                reduction.formula);
  }
}

StageCounter::Moment StageCounter::LayerAtWork() const {
  double most = 0, again = 0, gradients = 0;
  for (size_t kind = 0; kind < p_.kinds.size(); ++kind) {
    if (content_.layers_of_kind[kind] == 0) continue;
    const LayerActivations& kept = p_.activations[kind];
    double of_kind =
        w_.recompute == Recompute::kNone ? 0 : std::max(0.0, OfRank(w_, kept.All()) - KeptOf(kept));
    double grads = OfRank(w_, kept.Largest());
    if (of_kind + grads > most) {
      most = of_kind + grads;
      again = of_kind;
      gradients = grads;
    }
  }
  return {p_.tokens * most, [this, again, gradients] {
            return absl::StrFormat(
                "%s tokens · (%s B computed again + %s B gradients of activations)",
                CountText(p_.tokens), CountText(again), CountText(gradients));
          }};
}

StageCounter::Moment StageCounter::Reduction() const {
  double layer = Reduced(largest_), head = ReducedHead();
  double computed = w_.bytes.parameter, reduced = w_.bytes.gradient;
  return {layer * (computed + reduced) + head * computed, [=] {
            return absl::StrFormat(
                "%s numbers of a layer · (%g B computed + %g B reduced) + %s of the head · %g B",
                CountText(layer), computed, reduced, CountText(head), computed);
          }};
}

double StageCounter::ReducedHead() const {
  if (!content_.last) return 0;
  bool tied = false;
  for (const model::Weight& weight : w_.shape->head)
    tied |= weight.role == model::Role::kHead && weight.copies == 0;
  return Reduced(tied ? p_.embedding : p_.head);
}

StageCounter::Moment StageCounter::EndsReduced() const {
  double ends = Reduced(ends_), bytes = w_.bytes.parameter + w_.bytes.gradient;
  double gone = ledger_.sums().activations * kGib;
  return {ends * bytes - gone, [=, this] {
            return absl::StrFormat(
                "%s numbers of the ends · (%g B computed + %g B reduced), less %.2f GiB of "
                "activations that are gone by then",
                CountText(ends), w_.bytes.parameter, w_.bytes.gradient, gone / kGib);
          }};
}

StageCounter::Moment StageCounter::LossAtWork() const {
  if (!content_.last) return {};
  double vocabulary = static_cast<double>(w_.shape->vocab_size) / w_.dims.tp;
  double bytes = ActivationBytes(w_);
  if (w_.kernels.fused_loss) {
    // The gradient of the hidden states comes of the same pass.
    double chunk = std::min(p_.tokens, kFusedLossTokens), head = ReducedHead();
    double row = static_cast<double>(w_.shape->hidden_size) * bytes;
    return {chunk * vocabulary * (bytes + 8) + 2 * p_.tokens * row + head * w_.bytes.parameter,
            [=, this] {
              return absl::StrFormat(
                  "a chunk of %g tokens · %s logits · (%g B + float32 values and gradient 8 B) + "
                  "hidden states and their gradient 2 · %s tokens · %s B + %s of the head's "
                  "gradient · %g B",
                  chunk, CountText(vocabulary), bytes, CountText(p_.tokens), CountText(row),
                  CountText(head), w_.bytes.parameter);
            }};
  }
  if (OnCpu(w_)) {
    return {p_.tokens * vocabulary * bytes, [=, this] {
              return absl::StrFormat("%s tokens · %s logits · %g B, the gradient in their place",
                                     CountText(p_.tokens), CountText(vocabulary), bytes);
            }};
  }
  // Logits and float32 log-probabilities of each depth; while the gradient is computed, that of
  // the log-probabilities and that of the logits. torch.compile makes the latter at once, unless
  // the vocabulary is spread over tp ranks.
  double depths = 1 + static_cast<double>(w_.mtp_depths);
  double at_once = w_.kernels.compiled && w_.dims.tp == 1 ? 4 + bytes : 8;
  return {p_.tokens * vocabulary * (depths * (bytes + 4) + at_once), [=, this] {
            return absl::StrFormat(
                "%s tokens · %s logits · (%g · (%g B + log-probabilities 4 B) + gradients %g B)",
                CountText(p_.tokens), CountText(vocabulary), depths, bytes, at_once);
          }};
}

void StageCounter::Buffers() {
  auto group = &RankMemory::buffers;
  const ParallelDims& dims = w_.dims;
  const double hidden = static_cast<double>(w_.shape->hidden_size);
  const double row = hidden * ActivationBytes(w_);
  if (w_.node.gpus > 0) {
    int axes = (dims.pp > 1) + (dims.dp_replicate > 1) + (dims.dp_shard * dims.cp > 1) +
               (dims.cp > 1) + (dims.tp > 1) + (dims.ep > 1);
    ledger_.Add(group, "communicators", axes * kCommunicatorGib * kGib,
                [&] { return absl::StrFormat("%d axes · %g GiB", axes, kCommunicatorGib); });
  }
  if (dims.tp > 1 && w_.sequence_parallel) {
    ledger_.Add(group, "gathered sequence", 2 * p_.tokens * row, [&] {
      return absl::StrFormat("input and gradient gathered over tp: 2 · %s tokens · %s B",
                             CountText(p_.tokens), CountText(row));
    });
  }
  if (dims.cp > 1) {
    double keys = 0;
    for (const model::Layer& layer : w_.shape->kinds) {
      if (!layer.attention) continue;
      double of_layer = static_cast<double>(
          layer.attention->kv_heads * (layer.attention->key_dim + layer.attention->value_dim));
      keys = std::max(keys, of_layer * ActivationBytes(w_) / dims.tp);
    }
    ledger_.Add(group, "ring of keys", 2 * p_.tokens * keys, [&] {
      return absl::StrFormat("keys and values on their way: 2 · %s tokens · %s B",
                             CountText(p_.tokens), CountText(keys));
    });
  }
  if (dims.pp > 1) {
    double streams = static_cast<double>(std::max<int64_t>(1, w_.shape->residual_streams));
    ledger_.Add(group, "between stages", 4 * p_.tokens * row * streams, [&] {
      return absl::StrFormat("activations and gradients sent and received: 4 · %s tokens · %s B",
                             CountText(p_.tokens), CountText(row * streams));
    });
  }
  if (dims.ep > 1 && held_.experts.Sum() > 0) Dispatch(row);
}

void StageCounter::Dispatch(double row) {
  auto group = &RankMemory::buffers;
  double ep = w_.dims.ep, tokens = p_.tokens / w_.dims.tp;
  if (w_.kernels.dispatcher == Dispatcher::kTorch) {
    ledger_.Add(group, "tokens of the ep group", 2 * ep * tokens * row, [&] {
      return absl::StrFormat("gathered and to be scattered: 2 · ep %g · %s tokens · %s B", ep,
                             CountText(tokens), CountText(row));
    });
    return;
  }
  double peers = std::min(ep, 8.0) + (w_.bandwidth.ep_nodes > 1 ? w_.bandwidth.ep_nodes : 0);
  double bytes = kDeepEpChannels * kDeepEpChunk * peers * row;
  ledger_.Add(group, "dispatch buffers", bytes, [&] {
    return absl::StrFormat("%g channels · %g tokens · %g peers · %s B", kDeepEpChannels,
                           kDeepEpChunk, peers, CountText(row));
  });
}

void StageCounter::Overhead() {
  auto group = &RankMemory::overhead;
  if (w_.node.gpus == 0) {
    ledger_.Add(group, "process", kProcessGib * kGib,
                [] { return std::string("the program and its libraries"); });
    return;
  }
  ledger_.Add(group, "CUDA context", kContextGib * kGib,
              [] { return std::string("context, kernels, cuBLAS workspace"); });
  double coming = ledger_.sums().activations;
  ledger_.Add(group, "fragmentation", kFragmentation * coming * kGib, [&] {
    return absl::StrFormat("%g %% of %.2f GiB activations", 100 * kFragmentation, coming);
  });
}

}  // namespace am::plan

#include "launcher/plan/memory.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <functional>

#include "launcher/plan/activations.h"
#include "launcher/plan/sharding.h"

namespace am::plan {
namespace {

constexpr double kGib = 1024.0 * 1024 * 1024;

// A CUDA context with its loaded kernels, on Hopper; cuBLAS's workspace (32 MiB there) is in it.
// 723 MiB were measured for a process with one small tensor: discuss.pytorch.org/t/73021.
constexpr double kContextGib = 0.7;
// A communicator of NCCL. 8 H100 held 1.06 GB outside of PyTorch's allocator with one in use, the
// context included: github.com/NVIDIA/nccl/issues/1685.
constexpr double kCommunicatorGib = 0.35;
// Of what comes and goes, lost between blocks of PyTorch's allocator: an assumption.
constexpr double kFragmentation = 0.05;
// The program and its libraries, of a rank on the CPU: measured, docs/memory.md.
constexpr double kProcessGib = 0.35;
// Tokens whose logits exist at once where the loss is fused with the output projection.
constexpr double kFusedLossTokens = 1024;
// DeepEP's buffers: channels of 20 SMs, tokens of a chunk (github.com/deepseek-ai/DeepEP,
// config.hpp).
constexpr double kDeepEpChannels = 10, kDeepEpChunk = 256;

// "8.03e9", "16384".
std::string Count(double value) {
  return value >= 1e7
             ? absl::StrFormat("%.3ge%d", value / (value >= 1e9 ? 1e9 : 1e6), value >= 1e9 ? 9 : 6)
             : absl::StrFormat("%.6g", value);
}

// Adds up the terms of a rank; their texts are only made where somebody wants them.
class Ledger {
 public:
  Ledger(RankMemory& sums, std::vector<Term>* terms) : sums_(sums), terms_(terms) {}

  // `formula` is a function that returns the term's text up to its result.
  template <class Formula>
  void Add(double RankMemory::*group, const char* name, double bytes, Formula&& formula) {
    if (bytes <= 0) return;
    sums_.*group += bytes / kGib;
    if (terms_ == nullptr) return;
    terms_->push_back({name, bytes / kGib,
                       absl::StrCat(formula(), absl::StrFormat(" = %.2f GiB", bytes / kGib))});
  }

  const RankMemory& sums() const { return sums_; }

 private:
  RankMemory& sums_;
  std::vector<Term>* terms_;
};

// What every pipeline rank shares.
struct Prepared {
  explicit Prepared(const Workload& workload);

  std::vector<StageContent> contents;
  std::vector<HeldNumbers> kinds;  // as ModelShape::kinds
  std::vector<LayerActivations> activations;
  HeldNumbers embedding, head, towers, mtp;
  LayerActivations mtp_activations;
  double dense_shards, expert_shards;
  double tokens;  // of a micro-batch that a rank computes
  int64_t micro_batches;
  bool accumulates;  // several micro-batches a step
};

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

class StageCounter {
 public:
  StageCounter(const Workload& workload, const Prepared& prepared, int stage, RankMemory& sums,
               std::vector<Term>* terms)
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

  void Count() {
    Parameters();
    Gradients();
    Optimizer();
    LayerActivationsInFlight();
    AtWork();
    Buffers();
    Overhead();
  }

 private:
  double Resident() const { return w_.bytes.resident > 0 ? w_.bytes.resident : w_.bytes.parameter; }
  // Numbers that this rank keeps of the trained or frozen ones.
  double Shard(double Pool::*part) const {
    return held_.dense.*part / p_.dense_shards + held_.experts.*part / p_.expert_shards;
  }
  std::string Shards() const {
    if (p_.dense_shards == 1 && p_.expert_shards == 1) return "";
    if (held_.experts.Sum() == 0 || p_.dense_shards == p_.expert_shards)
      return absl::StrFormat(" / %g shards", p_.dense_shards);
    return absl::StrFormat(" (experts / %g shards, the others / %g)", p_.expert_shards,
                           p_.dense_shards);
  }
  // "2.1e9 trained numbers", before FSDP, with what tp and ep have cut.
  std::string Numbers(double numbers, const char* what) const {
    std::string text = absl::StrCat(plan::Count(numbers), " ", what);
    if (w_.dims.tp > 1) absl::StrAppend(&text, " after tp ", w_.dims.tp);
    if (w_.dims.ep > 1 && held_.experts.Sum() > 0) absl::StrAppend(&text, ", ep ", w_.dims.ep);
    return text;
  }
  double Held(double Pool::*part) const { return held_.dense.*part + held_.experts.*part; }

  void Parameters() {
    auto group = &RankMemory::parameters;
    double trained = Held(&Pool::trained), frozen = Held(&Pool::frozen);
    double packed = Held(&Pool::packed);
    // A frozen base has no copies: it is stored as it is computed with, or packed.
    ledger_.Add(
        group, w_.adapter ? "adapters" : "parameters", Shard(&Pool::trained) * Resident(), [&] {
          return absl::StrCat(Numbers(trained, w_.adapter ? "adapter numbers" : "parameters"),
                              absl::StrFormat(" · %g B", Resident()), Shards());
        });
    ledger_.Add(group, "frozen parameters", Shard(&Pool::frozen) * w_.bytes.parameter, [&] {
      return absl::StrCat(Numbers(frozen, "parameters"),
                          absl::StrFormat(" · %g B", w_.bytes.parameter), Shards());
    });
    ledger_.Add(group, "frozen matrices", Shard(&Pool::packed) * w_.bytes.frozen, [&] {
      return absl::StrCat(Numbers(packed, "parameters"),
                          absl::StrFormat(" · %g B", w_.bytes.frozen), Shards());
    });
    Gathered();
  }

  // Numbers of `held` of which FSDP's shards, or their dtype, are no copy to compute with.
  double Copied(const HeldNumbers& held) const {
    bool cast = Resident() != w_.bytes.parameter;
    auto copied = [&](const Pool& pool, double shards) {
      return shards > 1 ? pool.Sum() : cast ? pool.trained : 0;
    };
    return copied(held.dense, p_.dense_shards) + copied(held.experts, p_.expert_shards);
  }

  void Gathered() {
    auto group = &RankMemory::parameters;
    double bytes = w_.bytes.parameter;
    bool sharded = p_.dense_shards > 1 || p_.expert_shards > 1;
    if (w_.keeps_gathered || !sharded) {
      double copied = Copied(held_);
      ledger_.Add(group, "gathered parameters", copied * bytes, [&] {
        return absl::StrFormat("%s parameters gathered for the whole step · %g B",
                               plan::Count(copied), bytes);
      });
    } else {
      double ends = Copied(ends_), layer = Copied(largest_);
      // The layer at work and the next; two ahead in backward where prefetch is set.
      int layers = std::min(content_.layers, w_.kernels.prefetch ? 3 : 2);
      ledger_.Add(group, "gathered layers", layers * layer * bytes, [&] {
        return absl::StrFormat("%d layers gathered · %s parameters · %g B", layers,
                               plan::Count(layer), bytes);
      });
      ledger_.Add(group, "gathered embeddings", ends * bytes, [&] {
        return absl::StrFormat(
            "%s parameters of embedding and head, gathered for the whole pass · "
            "%g B",
            plan::Count(ends), bytes);
      });
    }
    if (w_.adapter && w_.bytes.frozen < bytes) {
      double packed = largest_.dense.packed + largest_.experts.packed;
      ledger_.Add(group, "unpacked matrices", packed * bytes, [&] {
        return absl::StrFormat("a layer's %s numbers unpacked · %g B", plan::Count(packed), bytes);
      });
    }
    if (w_.precision == Precision::kFp8 || w_.precision == Precision::kMxfp8) {
      // Transformer Engine keeps both layouts of a quantised weight between micro-batches.
      double numbers = (p_.accumulates ? held_.Sum() - ends_.Sum() : largest_.Sum());
      ledger_.Add(group, "8-bit weights", numbers * 2, [&] {
        return absl::StrFormat("%s parameters quantised, row- and column-wise · 2 · 1 B",
                               plan::Count(numbers));
      });
    }
  }

  // Trained numbers whose gradients FSDP reduces.
  double Reduced(const HeldNumbers& held) const {
    return (p_.dense_shards > 1 ? held.dense.trained : 0) +
           (p_.expert_shards > 1 ? held.experts.trained : 0);
  }

  void Gradients() {
    auto group = &RankMemory::gradients;
    double bytes = w_.bytes.gradient;
    bool sharded = p_.dense_shards > 1 || p_.expert_shards > 1;
    if (!sharded || (w_.keeps_full_gradients && p_.accumulates)) {
      double numbers = held_.Trained();
      ledger_.Add(group, "gradients", numbers * bytes, [&] {
        return absl::StrFormat("%s · %g B%s", Numbers(numbers, "trained numbers"), bytes,
                               sharded ? ", whole until the last micro-batch" : "");
      });
      if (w_.gradient_buckets && w_.dims.dp() > 1) {
        ledger_.Add(group, "gradient buckets", numbers * bytes, [&] {
          return absl::StrFormat("%s numbers in buckets beside them · %g B", plan::Count(numbers),
                                 bytes);
        });
      }
    } else {
      ledger_.Add(group, "gradients", Shard(&Pool::trained) * bytes, [&] {
        return absl::StrCat(Numbers(held_.Trained(), "trained numbers"),
                            absl::StrFormat(" · %g B", bytes), Shards());
      });
    }
  }

  void Optimizer() {
    auto group = &RankMemory::optimizer;
    auto add = [&](const char* name, double bytes) {
      ledger_.Add(group, name, Shard(&Pool::trained) * bytes, [&] {
        return absl::StrCat(Numbers(held_.Trained(), "trained numbers"),
                            absl::StrFormat(" · %g B", bytes), Shards());
      });
    };
    add("master weights", w_.bytes.master);
    add("first moments", w_.bytes.moment1);
    add("second moments", w_.bytes.moment2);
  }

  // Chunks of layers whose activations wait for their backward pass. 1F1B keeps pp - stage
  // micro-batches; interleaved, (pp - stage - 1) · 2 + (v - 1) · pp + 1 chunks of a v-th of the
  // rank's layers (Narayanan et al. 2021, arXiv 2104.04473, section 2.2; the order of Megatron-LM).
  double InFlight() const {
    int pp = w_.dims.pp, v = std::max(1, w_.virtual_stages);
    if (pp == 1) return 1;
    double most = static_cast<double>(p_.micro_batches * v);
    double chunks = v == 1 ? pp - stage_ : (pp - stage_ - 1) * 2 + (v - 1) * pp + 1;
    return std::min(most, chunks) / v;
  }

  double KeptOf(const LayerActivations& layer) const {
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

  void LayerActivationsInFlight() {
    double flight = InFlight();
    for (size_t kind = 0; kind < p_.kinds.size(); ++kind) {
      int layers = content_.layers_of_kind[kind];
      if (layers > 0) AddLayers(p_.activations[kind], w_.shape->kinds[kind], layers, flight);
    }
    if (content_.last && w_.mtp_depths > 0 && w_.shape->mtp)
      AddLayers(p_.mtp_activations, *w_.shape->mtp, static_cast<double>(w_.mtp_depths), 1);
  }

  void AddLayers(const LayerActivations& kept, const model::Layer& layer, double layers,
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
                            std::string(Name(static_cast<LayerPart>(part))), " ",
                            plan::Count(of_part));
        }
      }
      std::string micro = w_.dims.pp > 1 ? absl::StrFormat(" · %.3g in flight", flight) : "";
      return absl::StrFormat("%g × %s%s · %s tokens · %s B (%s)", layers, layer.kind, micro,
                             plan::Count(p_.tokens), plan::Count(bytes), what);
    });
  }

  // What is there for a moment only: the loss at work, or a layer in backward with its gradients on
  // their way. One is over before the other begins, so the larger counts.
  void AtWork() {
    Moment layer = LayerAtWork(), reduction = Reduction(), loss = LossAtWork();
    if (loss.bytes >= layer.bytes + reduction.bytes) {
      ledger_.Add(&RankMemory::activations, "logits", loss.bytes, loss.formula);
    } else {
      ledger_.Add(&RankMemory::activations, "a layer at work", layer.bytes, layer.formula);
      ledger_.Add(&RankMemory::gradients, "gradients being reduced", reduction.bytes,
                  reduction.formula);
    }
  }

  struct Moment {
    double bytes = 0;
    std::function<std::string()> formula;
  };

  // What is computed again of the layer that runs backward, and gradients of activations.
  Moment LayerAtWork() const {
    double most = 0, again = 0, gradients = 0;
    for (size_t kind = 0; kind < p_.kinds.size(); ++kind) {
      if (content_.layers_of_kind[kind] == 0) continue;
      const LayerActivations& kept = p_.activations[kind];
      double of_kind = w_.recompute == Recompute::kNone
                           ? 0
                           : std::max(0.0, OfRank(w_, kept.All()) - KeptOf(kept));
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
                  plan::Count(p_.tokens), plan::Count(again), plan::Count(gradients));
            }};
  }

  // Whole gradients of the layer at work, and of the one behind it as they are reduced; of the
  // ends.
  Moment Reduction() const {
    double layer = Reduced(largest_), ends = Reduced(ends_);
    double bytes = w_.bytes.parameter + w_.bytes.gradient;
    return {(layer + ends) * bytes, [this, layer, ends] {
              return absl::StrFormat(
                  "(%s numbers of a layer + %s of the ends) · (%g B computed + %g B reduced)",
                  plan::Count(layer), plan::Count(ends), w_.bytes.parameter, w_.bytes.gradient);
            }};
  }

  Moment LossAtWork() const {
    if (!content_.last) return {};
    double vocabulary = static_cast<double>(w_.shape->vocab_size) / w_.dims.tp;
    double bytes = ActivationBytes(w_);
    if (w_.kernels.fused_loss) {
      double tokens = std::min(p_.tokens, kFusedLossTokens);
      return {tokens * vocabulary * (bytes + 8), [=] {
                return absl::StrFormat(
                    "a chunk of %g tokens · %s logits · (%g B + float32 values and gradient 8 B)",
                    tokens, plan::Count(vocabulary), bytes);
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
                  plan::Count(p_.tokens), plan::Count(vocabulary), depths, bytes, at_once);
            }};
  }

  void Buffers() {
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
                               plan::Count(p_.tokens), plan::Count(row));
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
                               plan::Count(p_.tokens), plan::Count(keys));
      });
    }
    if (dims.pp > 1) {
      double streams = static_cast<double>(std::max<int64_t>(1, w_.shape->residual_streams));
      ledger_.Add(group, "between stages", 4 * p_.tokens * row * streams, [&] {
        return absl::StrFormat("activations and gradients sent and received: 4 · %s tokens · %s B",
                               plan::Count(p_.tokens), plan::Count(row * streams));
      });
    }
    if (dims.ep > 1 && held_.experts.Sum() > 0) Dispatch(row);
  }

  void Dispatch(double row) {
    auto group = &RankMemory::buffers;
    double ep = w_.dims.ep, tokens = p_.tokens / w_.dims.tp;
    if (w_.kernels.dispatcher == Dispatcher::kTorch) {
      ledger_.Add(group, "tokens of the ep group", 2 * ep * tokens * row, [&] {
        return absl::StrFormat("gathered and to be scattered: 2 · ep %g · %s tokens · %s B", ep,
                               plan::Count(tokens), plan::Count(row));
      });
      return;
    }
    double peers = std::min(ep, 8.0) + (w_.bandwidth.ep_nodes > 1 ? w_.bandwidth.ep_nodes : 0);
    double bytes = kDeepEpChannels * kDeepEpChunk * peers * row;
    ledger_.Add(group, "dispatch buffers", bytes, [&] {
      return absl::StrFormat("%g channels · %g tokens · %g peers · %s B", kDeepEpChannels,
                             kDeepEpChunk, peers, plan::Count(row));
    });
  }

  void Overhead() {
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

  const Workload& w_;
  const Prepared& p_;
  const int stage_;
  const StageContent& content_;
  Ledger ledger_;
  HeldNumbers held_, ends_, largest_;
};

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

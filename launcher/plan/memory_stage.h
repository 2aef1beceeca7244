// What memory.cc counts with: terms that add up, and the counter of one pipeline rank. Its states
// are in memory_states.cc, what comes and goes in memory_working.cc.
#pragma once

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <functional>
#include <string>
#include <vector>

#include "launcher/plan/activations.h"
#include "launcher/plan/memory.h"
#include "launcher/plan/sharding.h"

namespace am::plan {

inline constexpr double kGib = 1024.0 * 1024 * 1024;

// "8.03e9", "16384".
std::string CountText(double value);

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

// Counts one rank of a pipeline rank.
class StageCounter {
 public:
  StageCounter(const Workload& workload, const Prepared& prepared, int stage, RankMemory& sums,
               std::vector<Term>* terms);

  void Count();

 private:
  // A term that may or may not be added.
  struct Moment {
    double bytes = 0;
    std::function<std::string()> formula;
  };

  double Resident() const { return w_.bytes.resident > 0 ? w_.bytes.resident : w_.bytes.parameter; }
  // Numbers that this rank keeps of the trained or frozen ones.
  double Shard(double Pool::*part) const;
  std::string Shards() const;
  // "2.1e9 trained numbers", before FSDP, with what tp and ep have cut.
  std::string Numbers(double numbers, const char* what) const;
  double Held(double Pool::*part) const;
  void Parameters();
  // Numbers of `held` of which FSDP's shards, or their dtype, are no copy to compute with.
  double Copied(const HeldNumbers& held) const;
  void Gathered();
  // Trained numbers whose gradients FSDP reduces.
  double Reduced(const HeldNumbers& held) const;
  void Gradients();
  void Optimizer();
  // Chunks of layers whose activations wait for their backward pass. 1F1B keeps pp - stage
  // micro-batches; interleaved, (pp - stage - 1) · 2 + (v - 1) · pp + 1 chunks of a v-th of the
  // rank's layers (Narayanan et al. 2021, arXiv 2104.04473, section 2.2; the order of Megatron-LM).
  double InFlight() const;
  double KeptOf(const LayerActivations& layer) const;
  void LayerActivationsInFlight();
  void AddLayers(const LayerActivations& kept, const model::Layer& layer, double layers,
                 double flight);
  // What is there for a moment only: the loss at work; a layer in backward with its gradients on
  // their way; or those of the ends, last of all. One is over before the next begins, so the
  // largest counts.
  void AtWork();
  // What is computed again of the layer that runs backward, and gradients of activations.
  Moment LayerAtWork() const;
  // Whole gradients of the layer at work, twice where they are reduced; of the head, which waits
  // for the embedding's.
  Moment Reduction() const;
  double ReducedHead() const;
  // Those of embedding and head, when no activation is left.
  Moment EndsReduced() const;
  Moment LossAtWork() const;
  void Buffers();
  void Dispatch(double row);
  void Overhead();

  const Workload& w_;
  const Prepared& p_;
  const int stage_;
  const StageContent& content_;
  Ledger ledger_;
  HeldNumbers held_, ends_, largest_;
};

}  // namespace am::plan

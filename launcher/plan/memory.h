// EstimateMemory: what a GPU's memory is filled with during a step, of each pipeline rank and of
// the fullest one. Pure; some microseconds, since a search over layouts asks thousands of times.
//   MemoryEstimate memory = EstimateMemory(workload);
//   if (!memory.fits()) out << WhyItDoesNotFit(workload);
//   for (const Term& term : ExplainMemory(workload)) …  // GiB each, with its formula
//
// The sum is an upper bound of what lives at once: gradients are counted in full beside
// activations, though with a single micro-batch the ones grow while the others shrink. What it is
// counted from, its sources and how far it is off: docs/memory.md.
#pragma once

#include <string>
#include <vector>

#include "launcher/plan/workload.h"

namespace am::plan {

// GiB of one rank of a pipeline rank.
struct RankMemory {
  double parameters = 0;   // shards and what is gathered of them
  double gradients = 0;    // accumulated, and whole ones on their way
  double optimizer = 0;    // master copies and moments
  double activations = 0;  // of micro-batches in flight, logits, the layer at work
  double buffers = 0;      // of communication
  double overhead = 0;     // driver, libraries, what the allocator cannot use

  double total() const {
    return parameters + gradients + optimizer + activations + buffers + overhead;
  }
};

struct MemoryEstimate {
  RankMemory worst;
  int worst_stage = 0;             // the pipeline rank it belongs to
  std::vector<RankMemory> stages;  // by pipeline rank
  double limit = 0;                // GiB that a rank may fill; 0: not known

  bool fits() const { return limit <= 0 || worst.total() <= limit; }
};

// workload.shape must be set.
MemoryEstimate EstimateMemory(const Workload& workload);

// The terms of the fullest rank, or of `stage`: their values add up to its total.
std::vector<Term> ExplainMemory(const Workload& workload);
std::vector<Term> ExplainMemory(const Workload& workload, int stage);

// A change that lowers memory, and the estimate once it is made.
struct MemoryCure {
  std::string change;  // "distributed.activation_checkpointing: true"
  std::string cost;    // "about 30 % more compute"
  MemoryEstimate after;
};
// Up to three, the cheapest first; those that make it fit before those that only help.
std::vector<MemoryCure> CuresFor(const Workload& workload);

// "needs 96.2 GiB of the 79.6 GiB of a GPU (…); set … (51.3 GiB) or …". Empty where it fits.
std::string WhyItDoesNotFit(const Workload& workload);

}  // namespace am::plan

// ModelFlops: the FLOPs of a model that a published TFLOP/s figure counts: six for each
// multiply-add of forward that is trained (forward, gradient of the input, gradient of the weight),
// two where it only runs forward; no recomputation, norms, softmax or optimizer. What a step costs
// in time is another count (step_time.h).
//   FlopsEstimate flops = ModelFlops(workload, FlopsConvention::kCurrent);
//   double of_a_step = flops.per_token * workload.global_batch_size * workload.seq_length;
//
// Families differ in what they leave out, and some recorded runs were printed with older formulas:
// docs/recorded_runs.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/model/shape.h"
#include "launcher/plan/workload.h"

namespace am::plan {

enum class FlopsConvention {
  kCurrent,   // one formula a family, as it stands today
  kRecorded,  // the one that the recorded runs of the family were printed with
};

// `--flops-convention` and the recipe's `x-flops-convention`: "current" or "recorded"; nothing for
// any other word.
std::optional<FlopsConvention> ParseFlopsConvention(std::string_view word);

struct FlopsInput {
  int64_t seq_length = 0;
  FlopsConvention convention = FlopsConvention::kCurrent;
  int64_t mtp_depths = 0;          // of multi-token prediction, trained
  std::optional<Adapter> adapter;  // nothing: every weight is trained
  // Of the run: the recorded formula of GPT-OSS was another one on H100 than on GB200.
  std::string gpu;
};

struct FlopsEstimate {
  double per_token = 0;     // of forward and backward, at full length
  std::string convention;   // "current", "recorded"; "own" for a family without a formula
  std::vector<Term> terms;  // FLOPs a token; they add up to per_token
};

FlopsEstimate ModelFlops(const model::ModelShape& shape, const FlopsInput& input);
// workload.shape must be set.
FlopsEstimate ModelFlops(const Workload& workload, FlopsConvention convention);

}  // namespace am::plan

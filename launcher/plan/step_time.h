// EstimateStepTime: how long a training step takes on a GPU cluster, from counts of operations and
// bytes and the eight numbers of a Calibration. Pure; microseconds to call, so a search may.
//
//   step = micro-batches · (slowest stage's layers + head + stage transfers) · (1 + bubble)
//        + exposed part of sharding traffic + optimizer + host
//
// One layer's terms: step_time_layer.h; machine and kernels: step_time_rates.h; what it was fitted
// to, how far it errs and what it cannot tell: docs/predictor.md.
//   StepTimeEstimate time = EstimateStepTime(workload);
//   for (const Term& term : time.terms) …     // seconds of a step; they add up to time.seconds
#pragma once

#include <string>
#include <vector>

#include "launcher/plan/calibration.h"
#include "launcher/plan/workload.h"

namespace am::plan {

struct StepTimeEstimate {
  double seconds = 0;  // 0: cannot be told, see notes
  // Made-up samples of full length: within the errors of docs/predictor.md. Real data is slower:
  // padding, loading and kernels that no model of the machine knows of.
  double low_seconds = 0;
  double high_seconds = 0;
  double tokens_per_s = 0;  // of all GPUs, padding counted
  std::vector<Term> terms;
  std::vector<std::string> notes;  // what was assumed, what is not known
};

StepTimeEstimate EstimateStepTime(const Workload& workload, const Calibration& calibration = {});

}  // namespace am::plan

// LrSchedule: learning rate and weight decay as pure functions of the optimizer steps taken (0
// before the first). Formulas: docs/recipe_reference.md, lr_scheduler. Without a spec both are
// constant.
#pragma once

#include <cstdint>
#include <optional>

#include "worker/rank_io/rank_spec.h"

namespace am::engine {

class LrSchedule {
 public:
  // total_steps: min(num_epochs * steps_per_epoch, max_steps). Throws am::Error (kUser) where the
  // numbers cannot be met (min_lr > max_lr, warmup >= decay, WSD without wsd_decay_steps, an
  // unknown style).
  LrSchedule(const std::optional<LrSchedulerSpec>& spec, double base_lr, double base_weight_decay,
             int64_t total_steps);
  double LearningRate(int64_t steps_taken) const;
  double WeightDecay(int64_t steps_taken) const;
  // The spec with everything filled in that it left open; meaningless without a spec.
  const LrSchedulerSpec& resolved() const { return spec_; }

 private:
  LrSchedulerSpec spec_;
  bool constant_ = true;
  double base_lr_ = 0;
  double base_weight_decay_ = 0;
};

}  // namespace am::engine

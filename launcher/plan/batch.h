// Batch arithmetic: how many samples a step, a micro-batch and a rank take. Both spellings of a
// recipe give the same numbers:
//   step_scheduler: {global_batch_size: 32, local_batch_size: 4}          accumulation follows
//   step_scheduler: {grad_acc_steps: 4}, dataloader: {batch_size: 8}      the global batch follows
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/recipe/recipe.h"

namespace am::plan {

struct Batch {
  int64_t global_batch_size = 0;  // samples an optimizer step
  int64_t local_batch_size = 0;   // samples a micro-batch, per dp rank
  int64_t grad_acc_steps = 0;     // micro-batches an optimizer step, per dp rank
  std::string reason;             // the arithmetic, in one line
  bool operator==(const Batch&) const = default;
};

// Nothing where the numbers cannot be met; `out` then has the arithmetic and the nearest legal
// values.
std::optional<Batch> ResolveBatch(const recipe::Recipe& recipe, int dp_size,
                                  recipe::Diagnostics& out);

}  // namespace am::plan

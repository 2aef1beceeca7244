// Dropout whose mask is a function of the sample, not of the layout: the same on every rank, and
// again in backward.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace am::engine {

struct DropoutKey {
  uint64_t seed = 0;
  uint64_t step = 0;
  uint32_t layer = 0;
  uint32_t site = 0;
};

// x [T, F] *= keep / (1 - p), in place; keep is Bernoulli(1 - p) drawn at (key, sample, position,
// first_feature + column). samples, positions: [B] int32 of the batch's rows; rows_of: [T] int64,
// the batch row of each row of x, or undefined when T == B.
void ApplyDropout(at::Tensor& x, double p, const DropoutKey& key, const at::Tensor& samples,
                  const at::Tensor& positions, const at::Tensor& rows_of, int64_t first_feature);

}  // namespace am::engine

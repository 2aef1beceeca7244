// Bulk random numbers keyed as philox.h says: dropout masks of a packed micro-batch, and initial
// values of (shards of) parameters. CPU tensors; multi-threaded; the same numbers for every thread
// count.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "worker/engine/core/philox.h"

namespace am::engine {

// mask: [T, D], float32 or bfloat16: 0 with probability p, else 1 / (1 - p). Row t belongs to token
// positions[t] of sample samples[t] (int64 [T], the sample's index in the global batch); column d
// is feature first_feature + d of the unsharded tensor.
void FillDropoutMask(at::Tensor& mask, double p, const at::Tensor& samples,
                     const at::Tensor& positions, int64_t first_feature, const PhiloxKey& key);
// Likewise, uniform in [low, high): the noise of NEFTune.
void FillTokenUniform(at::Tensor& noise, double low, double high, const at::Tensor& samples,
                      const at::Tensor& positions, int64_t first_feature, const PhiloxKey& key);

// Elements [first, first + numel) of the global tensor, in its flat order; `tensor` is contiguous,
// any floating dtype.
void FillNormal(at::Tensor& tensor, double mean, double stddev, int64_t first,
                const PhiloxKey& key);
void FillUniform(at::Tensor& tensor, double low, double high, int64_t first, const PhiloxKey& key);
// As torch.nn.init has them, for a global weight of [fan_out, fan_in]: Xavier normal with variance
// 2 / (fan_in + fan_out), uniform within sqrt(6 / (fan_in + fan_out)) (Glorot & Bengio 2010);
// Kaiming uniform within sqrt(6 / ((1 + a^2) fan_in)) (He et al. 2015).
void FillXavierNormal(at::Tensor& tensor, int64_t fan_in, int64_t fan_out, int64_t first,
                      const PhiloxKey& key);
void FillXavierUniform(at::Tensor& tensor, int64_t fan_in, int64_t fan_out, int64_t first,
                       const PhiloxKey& key);
void FillKaimingUniform(at::Tensor& tensor, double a, int64_t fan_in, int64_t first,
                        const PhiloxKey& key);

}  // namespace am::engine

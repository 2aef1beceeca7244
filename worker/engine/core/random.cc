#include "worker/engine/core/random.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>

#include "common/error.h"
#include "worker/engine/core/convert.h"
#include "worker/engine/core/cpu_target.h"
#include "worker/engine/core/parallel_for.h"

namespace am::engine {
namespace {

constexpr int64_t kBlock = 1024;  // values made at a time, a multiple of Philox's four
constexpr double kPi = 3.14159265358979323846;

// bits[4 j + i] = word i of the counter (low word first + j, ...): four words a counter.
AM_TARGET_CLONES void PhiloxRun(uint32_t* __restrict bits, int64_t counters, uint32_t word0,
                                uint32_t word1, uint32_t word2, uint32_t word3, bool run_in_word2,
                                uint32_t key0, uint32_t key1) {
  for (int64_t j = 0; j < counters; ++j) {
    uint32_t c0 = run_in_word2 ? word0 : word0 + static_cast<uint32_t>(j);
    uint32_t c1 = word1;
    uint32_t c2 = run_in_word2 ? word2 + static_cast<uint32_t>(j) : word2;
    uint32_t c3 = word3;
    uint32_t k0 = key0;
    uint32_t k1 = key1;
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const uint64_t low = uint64_t{0xD2511F53} * c0;
      const uint64_t high = uint64_t{0xCD9E8D57} * c2;
      c0 = static_cast<uint32_t>(high >> 32) ^ c1 ^ k0;
      c1 = static_cast<uint32_t>(high);
      c2 = static_cast<uint32_t>(low >> 32) ^ c3 ^ k1;
      c3 = static_cast<uint32_t>(low);
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    bits[4 * j] = c0;
    bits[4 * j + 1] = c1;
    bits[4 * j + 2] = c2;
    bits[4 * j + 3] = c3;
  }
}

// Calls f(bits, offset, n) for pieces of [0, count): `bits` are those of elements first + offset
// and on. `run` makes the words of consecutive counters, given the first counter's index and how
// many.
template <typename Run, typename F>
void ForPieces(int64_t first, int64_t count, const Run& run, const F& f) {
  alignas(64) uint32_t bits[kBlock + 8];
  for (int64_t offset = 0; offset < count; offset += kBlock) {
    const int64_t n = std::min(kBlock, count - offset);
    const int64_t element = first + offset;
    const int64_t skip = element & 3;
    run(bits, element >> 2, (skip + n + 3) >> 2);
    f(bits + skip, offset, n);
  }
}

void StoreFloats(const float* values, at::Tensor& tensor, int64_t offset, int64_t n) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      std::copy_n(values, n, static_cast<float*>(tensor.data_ptr()) + offset);
      return;
    case at::kBFloat16:
      FromFloat(values, static_cast<c10::BFloat16*>(tensor.data_ptr()) + offset, n);
      return;
    case at::kHalf:
      FromFloat(values, static_cast<c10::Half*>(tensor.data_ptr()) + offset, n);
      return;
    case at::kDouble:
      std::copy_n(values, n, static_cast<double*>(tensor.data_ptr()) + offset);
      return;
    default:
      throw InternalError(std::string("random numbers: a tensor of dtype ") +
                          c10::toString(tensor.scalar_type()));
  }
}

// value(bits, lane, floats, n) turns words into floats; the fill runs on the CPU and is copied
// where the tensor is elsewhere.
template <typename Value>
void FillRange(at::Tensor& tensor, int64_t first, const PhiloxKey& key, const Value& value) {
  if (!tensor.is_cpu() || !tensor.is_contiguous()) {
    at::Tensor filled = at::empty(tensor.sizes(), at::TensorOptions().dtype(tensor.scalar_type()));
    FillRange(filled, first, key, value);
    tensor.copy_(filled);
    return;
  }
  // Pieces begin at multiples of kBlock of the tensor, not of a thread's share; pairs of the normal
  // distribution need whole counters, which `value` gets through `skip`.
  const int64_t pieces = (tensor.numel() + kBlock - 1) / kBlock;
  ParallelFor(0, pieces, 4, [&](int64_t begin, int64_t end) {
    alignas(64) float values[kBlock + 8];
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t offset = piece * kBlock;
      const int64_t n = std::min(kBlock, tensor.numel() - offset);
      const auto run = [&](uint32_t* bits, int64_t counter, int64_t counters) {
        const auto index = static_cast<uint64_t>(counter);
        PhiloxRun(bits, counters, static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                  0, 0, false, key[0], key[1]);
      };
      ForPieces(first + offset, n, run, [&](const uint32_t* bits, int64_t, int64_t count) {
        const int64_t skip = (first + offset) & 3;
        value(bits - skip, values, (skip + count + 3) & ~int64_t{3});
        StoreFloats(values + skip, tensor, offset, count);
      });
    }
  });
}

AM_TARGET_CLONES void MaskFromBits(const uint32_t* bits, float* mask, int64_t n, uint32_t threshold,
                                   float kept) {
  for (int64_t i = 0; i < n; ++i) mask[i] = bits[i] < threshold ? 0 : kept;
}

AM_TARGET_CLONES void UniformsFromBits(const uint32_t* bits, float* values, int64_t n, float low,
                                       float width) {
  for (int64_t i = 0; i < n; ++i) values[i] = low + width * UniformFromBits(bits[i]);
}

// Box & Muller (1958): each two words make two independent normal numbers. In double: the results
// do not depend on the vectors of the machine.
void NormalsFromBits(const uint32_t* bits, float* values, int64_t n, double mean, double stddev) {
  for (int64_t i = 0; i < n; i += 2) {
    const double radius = stddev * std::sqrt(-2 * std::log((bits[i] + 1.0) * 0x1p-32));
    const double angle = 2 * kPi * (bits[i + 1] * 0x1p-32);
    values[i] = static_cast<float>(mean + radius * std::cos(angle));
    values[i + 1] = static_cast<float>(mean + radius * std::sin(angle));
  }
}

// The shared walk over the rows of a packed micro-batch.
template <typename Value>
void FillTokens(at::Tensor& tensor, const at::Tensor& samples, const at::Tensor& positions,
                int64_t first_feature, const PhiloxKey& key, const Value& value) {
  const int64_t rows = tensor.size(0);
  if (tensor.dim() != 2 || samples.numel() != rows || positions.numel() != rows ||
      samples.scalar_type() != at::kLong || positions.scalar_type() != at::kLong) {
    throw InternalError("random numbers: " + std::to_string(rows) +
                        " rows need as many int64 samples (" + std::to_string(samples.numel()) +
                        ") and positions (" + std::to_string(positions.numel()) + ")");
  }
  if (!tensor.is_cpu() || !tensor.is_contiguous()) {
    at::Tensor filled = at::empty(tensor.sizes(), at::TensorOptions().dtype(tensor.scalar_type()));
    FillTokens(filled, samples.cpu(), positions.cpu(), first_feature, key, value);
    tensor.copy_(filled);
    return;
  }
  const at::Tensor dense_samples = samples.contiguous();
  const at::Tensor dense_positions = positions.contiguous();
  const auto* sample = static_cast<const int64_t*>(dense_samples.data_ptr());
  const auto* position = static_cast<const int64_t*>(dense_positions.data_ptr());
  const int64_t columns = tensor.size(1);
  ParallelFor(0, rows, std::max<int64_t>(1, 4096 / std::max<int64_t>(columns, 1)),
              [&](int64_t begin, int64_t end) {
                alignas(64) float values[kBlock];
                for (int64_t row = begin; row < end; ++row) {
                  const auto s = static_cast<uint64_t>(sample[row]);
                  const auto run = [&](uint32_t* bits, int64_t counter, int64_t counters) {
                    PhiloxRun(bits, counters, static_cast<uint32_t>(s),
                              static_cast<uint32_t>(position[row]), static_cast<uint32_t>(counter),
                              static_cast<uint32_t>(s >> 32), true, key[0], key[1]);
                  };
                  ForPieces(first_feature, columns, run,
                            [&](const uint32_t* bits, int64_t offset, int64_t n) {
                              value(bits, values, n);
                              StoreFloats(values, tensor, row * columns + offset, n);
                            });
                }
              });
}

}  // namespace

void FillDropoutMask(at::Tensor& mask, double p, const at::Tensor& samples,
                     const at::Tensor& positions, int64_t first_feature, const PhiloxKey& key) {
  if (p < 0 || p >= 1) {
    throw UserError("dropout: " + std::to_string(p) + "; use 0 to below 1");
  }
  const auto threshold = static_cast<uint32_t>(std::min(p * 0x1p32, 4294967295.0));
  const auto kept = static_cast<float>(1 / (1 - p));
  FillTokens(mask, samples, positions, first_feature, key,
             [&](const uint32_t* bits, float* values, int64_t n) {
               MaskFromBits(bits, values, n, threshold, kept);
             });
}

void FillTokenUniform(at::Tensor& noise, double low, double high, const at::Tensor& samples,
                      const at::Tensor& positions, int64_t first_feature, const PhiloxKey& key) {
  FillTokens(noise, samples, positions, first_feature, key,
             [&](const uint32_t* bits, float* values, int64_t n) {
               UniformsFromBits(bits, values, n, static_cast<float>(low),
                                static_cast<float>(high - low));
             });
}

void FillNormal(at::Tensor& tensor, double mean, double stddev, int64_t first,
                const PhiloxKey& key) {
  FillRange(tensor, first, key, [&](const uint32_t* bits, float* values, int64_t n) {
    NormalsFromBits(bits, values, n, mean, stddev);
  });
}

void FillUniform(at::Tensor& tensor, double low, double high, int64_t first, const PhiloxKey& key) {
  FillRange(tensor, first, key, [&](const uint32_t* bits, float* values, int64_t n) {
    UniformsFromBits(bits, values, n, static_cast<float>(low), static_cast<float>(high - low));
  });
}

void FillXavierNormal(at::Tensor& tensor, int64_t fan_in, int64_t fan_out, int64_t first,
                      const PhiloxKey& key) {
  FillNormal(tensor, 0, std::sqrt(2.0 / static_cast<double>(fan_in + fan_out)), first, key);
}

void FillXavierUniform(at::Tensor& tensor, int64_t fan_in, int64_t fan_out, int64_t first,
                       const PhiloxKey& key) {
  const double bound = std::sqrt(6.0 / static_cast<double>(fan_in + fan_out));
  FillUniform(tensor, -bound, bound, first, key);
}

void FillKaimingUniform(at::Tensor& tensor, double a, int64_t fan_in, int64_t first,
                        const PhiloxKey& key) {
  const double bound = std::sqrt(6.0 / ((1 + a * a) * static_cast<double>(fan_in)));
  FillUniform(tensor, -bound, bound, first, key);
}

}  // namespace am::engine

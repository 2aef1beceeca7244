// The one file of the room that needs LibTorch: its permutation is torch's, so that runs compare
// with torch's loaders.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/randperm.h>

#include <numeric>

#include "worker/engine/data/dataset.h"

namespace am::engine {

std::vector<int64_t> EpochOrder(int64_t n, bool shuffle, uint64_t seed) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  if (!shuffle) {
    std::iota(order.begin(), order.end(), 0);
    return order;
  }
  const at::Generator generator = at::detail::createCPUGenerator(seed);
  const at::Tensor permutation = at::randperm(n, generator, at::TensorOptions().dtype(at::kLong));
  const int64_t* values = permutation.const_data_ptr<int64_t>();
  order.assign(values, values + n);
  return order;
}

}  // namespace am::engine

#include "worker/engine/optim/optimizer.h"

#include <ATen/ops/linalg_vector_norm.h>

#include <algorithm>
#include <numeric>

#include "common/error.h"
#include "worker/engine/core/parallel_for.h"
#include "worker/engine/optim/adam.h"
#include "worker/engine/optim/sgd.h"
#include "worker/engine/optim/slot_blocks.h"
#include "worker/engine/optim/update_loops.h"

namespace am::engine {
namespace {

void CheckRange(const char* key, double value, double low, double high, const char* allowed) {
  if (value >= low && value < high) return;
  throw UserError("optimizer." + std::string(key) + ": " + std::to_string(value) + "; use " +
                  allowed);
}

}  // namespace

std::unique_ptr<Optimizer> MakeOptimizer(const OptimizerSpec& spec,
                                         const std::vector<OptimizerSlot>& slots) {
  constexpr double kNoLimit = 1e300;
  CheckRange("weight_decay", spec.weight_decay, 0, kNoLimit, "0 or more");
  if (spec.kind == "sgd") {
    CheckRange("momentum", spec.momentum, 0, kNoLimit, "0 or more");
    return MakeSgd(spec, slots);
  }
  if (spec.kind == "adam" || spec.kind == "adamw") {
    CheckRange("betas", spec.beta1, 0, 1, "two numbers from 0 to below 1");
    CheckRange("betas", spec.beta2, 0, 1, "two numbers from 0 to below 1");
    CheckRange("eps", spec.eps, 0, kNoLimit, "0 or more");
    return MakeAdam(spec, spec.kind == "adamw", slots);
  }
  throw UserError("optimizer._target_: unknown optimizer '" + spec.kind +
                  "'; use adam, adamw or sgd");
}

double SumOfSquares(const at::Tensor& tensor) {
  if (!tensor.is_cpu() || !tensor.is_contiguous()) {
    const double norm =
        at::linalg_vector_norm(tensor, 2, at::OptionalIntArrayRef(), false, at::kDouble)
            .item<double>();
    return norm * norm;
  }
  // A partial sum for each block, added in order: the same for every thread count.
  const int64_t blocks = (tensor.numel() + kBlockElements - 1) / kBlockElements;
  std::vector<double> sums(blocks);
  ParallelFor(0, blocks, 16, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      const int64_t first = block * kBlockElements;
      const int64_t n = std::min(kBlockElements, tensor.numel() - first);
      sums[block] = SumOfSquaresBlock(FloatBlock(tensor, first, n).data(), n);
    }
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

}  // namespace am::engine

#include "worker/engine/data/batches.h"

#include <algorithm>
#include <string>

#include "common/error.h"

namespace am::engine {

int64_t StepsPerEpoch(int64_t n, int64_t global_batch_size, bool drop_last) {
  if (n < 1) throw UserError("dataset: it has no samples");
  if (global_batch_size < 1)
    throw InternalError("a global batch size of " + std::to_string(global_batch_size));
  if (!drop_last) return (n + global_batch_size - 1) / global_batch_size;
  if (n < global_batch_size) {
    throw UserError(
        "dataloader.drop_last: " + std::to_string(n) + " samples make no full global batch of " +
        std::to_string(global_batch_size) +
        "; set dataloader.drop_last: false or a smaller step_scheduler.global_batch_size");
  }
  return n / global_batch_size;
}

std::vector<std::vector<SampleRef>> MicroBatches(const std::vector<int64_t>& order,
                                                 const DataLoaderOptions& options, int64_t step) {
  const auto n = static_cast<int64_t>(order.size());
  const int64_t begin = std::min(step * options.global_batch_size, n);
  const int64_t count = std::min(options.global_batch_size, n - begin);
  const int64_t largest_share = (count + options.dp_size - 1) / options.dp_size;
  const int64_t micro_count =
      (largest_share + options.local_batch_size - 1) / options.local_batch_size;
  std::vector<std::vector<SampleRef>> micro_batches(static_cast<size_t>(micro_count));
  int64_t taken = 0;
  for (int64_t i = options.dp_rank; i < count; i += options.dp_size, ++taken) {
    micro_batches[static_cast<size_t>(taken / options.local_batch_size)].push_back(
        {.dataset_index = order[static_cast<size_t>(begin + i)], .batch_index = i});
  }
  return micro_batches;
}

}  // namespace am::engine

// Which samples of an epoch one dp rank runs in one step: pure arithmetic over the epoch's order.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/engine/data/dataset.h"

namespace am::engine {

struct SampleRef {
  int64_t dataset_index = 0;
  int64_t batch_index = 0;  // in the global batch
};

// Micro-batches of `options.dp_rank` in step `step` of an epoch in `order`. The same number on
// every rank: as many as the largest share needs, so the last ones of a smaller share are short or
// empty.
std::vector<std::vector<SampleRef>> MicroBatches(const std::vector<int64_t>& order,
                                                 const DataLoaderOptions& options, int64_t step);

}  // namespace am::engine

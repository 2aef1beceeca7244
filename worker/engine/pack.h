// From samples to packed passes: which micro-batches run together, and their tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "worker/engine/data/dataset.h"
#include "worker/engine/model/batch.h"

namespace am::engine {

// Tokens of a sample that can reach the loss: up to its last label. What follows (padding) is never
// computed.
int64_t UsefulLength(const Sample& sample, int64_t ignore_index);
int64_t CountLabels(const Sample& sample, int64_t ignore_index);

// Consecutive micro-batches are merged into one pass while their tokens stay within the budget: the
// gradient is the same sum, and larger matrices run faster. Returns the micro-batches of each pass;
// a micro-batch over the budget runs alone.
std::vector<std::vector<size_t>> MergePasses(const std::vector<int64_t>& micro_batch_tokens,
                                             int64_t budget);

// Lays samples end to end. Samples without labels are left out. An empty result is padded to one
// token without a label, so that a rank without samples takes part in every collective.
PackedBatch Pack(const std::vector<const Sample*>& samples, int64_t ignore_index);

}  // namespace am::engine

#include "worker/engine/pack.h"

#include <ATen/ops/empty.h>

#include <algorithm>

namespace am::engine {

int64_t UsefulLength(const Sample& sample, int64_t ignore_index) {
  int64_t length = static_cast<int64_t>(sample.labels.size());
  while (length > 0 &&
         (sample.labels[length - 1] == -100 || sample.labels[length - 1] == ignore_index))
    --length;
  return length;
}

int64_t CountLabels(const Sample& sample, int64_t ignore_index) {
  return std::count_if(sample.labels.begin(), sample.labels.end(),
                       [&](int64_t label) { return label != -100 && label != ignore_index; });
}

std::vector<std::vector<size_t>> MergePasses(const std::vector<int64_t>& micro_batch_tokens,
                                             int64_t budget) {
  std::vector<std::vector<size_t>> passes;
  int64_t used = 0;
  for (size_t i = 0; i < micro_batch_tokens.size(); ++i) {
    if (passes.empty() || used + micro_batch_tokens[i] > budget) {
      passes.emplace_back();
      used = 0;
    }
    passes.back().push_back(i);
    used += micro_batch_tokens[i];
  }
  return passes;
}

PackedBatch Pack(const std::vector<const Sample*>& samples, int64_t ignore_index) {
  PackedBatch batch;
  int64_t tokens = 0, labels = 0;
  batch.cu_seqlens.push_back(0);
  for (const Sample* sample : samples) {
    const int64_t length = UsefulLength(*sample, ignore_index);
    if (length == 0) continue;
    tokens += length;
    labels += CountLabels(*sample, ignore_index);
    batch.cu_seqlens.push_back(tokens);
    batch.max_seqlen = std::max(batch.max_seqlen, length);
  }
  const bool dummy = tokens == 0;
  if (dummy) {
    tokens = batch.max_seqlen = 1;
    batch.cu_seqlens.push_back(1);
  }
  batch.ids = at::empty({tokens}, at::kLong);
  batch.positions = at::empty({tokens}, at::kInt);
  batch.samples = at::empty({tokens}, at::kInt);
  batch.label_rows = at::empty({labels}, at::kLong);
  batch.labels = at::empty({labels}, at::kLong);
  auto* ids = batch.ids.data_ptr<int64_t>();
  auto* positions = batch.positions.data_ptr<int32_t>();
  auto* sample_of = batch.samples.data_ptr<int32_t>();
  auto* rows = batch.label_rows.data_ptr<int64_t>();
  auto* targets = batch.labels.data_ptr<int64_t>();
  if (dummy) {
    ids[0] = positions[0] = sample_of[0] = 0;
    return batch;
  }
  int64_t at = 0, label = 0;
  for (const Sample* sample : samples) {
    const int64_t length = UsefulLength(*sample, ignore_index);
    for (int64_t i = 0; i < length; ++i, ++at) {
      ids[at] = sample->input_ids[i];
      positions[at] = static_cast<int32_t>(i);
      sample_of[at] = static_cast<int32_t>(sample->batch_index);
      if (sample->labels[i] == -100 || sample->labels[i] == ignore_index) continue;
      rows[label] = at;
      targets[label++] = sample->labels[i];
    }
  }
  return batch;
}

}  // namespace am::engine

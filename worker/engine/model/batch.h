// PackedBatch: the sequences of one forward pass laid end to end, no padding; and what the pass
// needs beside them.
//
// Data side: made by pack.h from the samples of one or several micro-batches. Model side: read by
// every operator.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace am::engine {

struct PackedBatch {
  at::Tensor ids;        // [T] int64
  at::Tensor positions;  // [T] int32, from 0 in every sequence
  at::Tensor samples;    // [T] int32, index of the sample in its global batch (keys the randomness)
  std::vector<int64_t> cu_seqlens;  // sequence i is rows [cu_seqlens[i], cu_seqlens[i + 1])
  at::Tensor label_rows;            // [N] int64, rows that carry a label, ascending
  at::Tensor labels;                // [N] int64
  int64_t max_seqlen = 0;

  int64_t tokens() const { return cu_seqlens.empty() ? 0 : cu_seqlens.back(); }
};

// Keys every random draw of a forward pass; layer and site are added by the module that draws.
struct PassContext {
  bool training = false;
  uint64_t seed = 0;
  int64_t step = 0;
};

}  // namespace am::engine

// RoPE tables: Su et al. 2021, with the scalings of transformers' modeling_rope_utils.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "worker/engine/model/model_config.h"

namespace am::engine {

struct InverseFrequencies {
  std::vector<double> values;   // head_dim / 2
  double attention_factor = 1;  // multiplies cos and sin
};

// `seq_len`: the longest sequence of the pass, which only "dynamic" looks at.
InverseFrequencies RopeFrequencies(const RopeConfig& rope, int64_t head_dim, int64_t max_position,
                                   int64_t seq_len);

// Cosines and sines by position: [rows, head_dim / 2] float32 each, grown on demand and kept
// between passes.
class RopeTable {
 public:
  RopeTable(const RopeConfig& rope, int64_t head_dim, int64_t max_position)
      : rope_(rope), head_dim_(head_dim), max_position_(max_position) {}
  void Prepare(int64_t seq_len);
  const at::Tensor& cos() const { return cos_; }
  const at::Tensor& sin() const { return sin_; }

 private:
  RopeConfig rope_;
  int64_t head_dim_;
  int64_t max_position_;
  int64_t built_for_ = 0;
  at::Tensor cos_, sin_;
};

}  // namespace am::engine

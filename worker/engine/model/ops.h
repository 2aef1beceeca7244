// The differentiable operators of a decoder, each one autograd node. Rows are tokens: [T,
// features], sequences end to end. Parameters are read when an operator runs, forward and backward
// (core/parameter.h).
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>

#include "worker/engine/core/parameter.h"
#include "worker/engine/model/batch.h"
#include "worker/engine/model/rope.h"

namespace am::engine {

// weight: [V, H] -> [T, H]. The result requires grad even when the embedding is frozen, so that
// every block runs backward. Rows of `padding_id` get no gradient (torch.nn.Embedding's
// padding_idx); -1: none such.
at::Tensor Embed(Parameter& weight, const at::Tensor& ids, int64_t padding_id);

// s = residual + delta (delta may be undefined), y = weight * s / rms(s); returns {s, y}. Zhang &
// Sennrich 2019; statistics in float32, rounded to the input's dtype before the weight, as
// transformers' LlamaRMSNorm.
std::pair<at::Tensor, at::Tensor> AddRmsNorm(Parameter& weight, double eps,
                                             const at::Tensor& residual, const at::Tensor& delta);

struct AttentionShape {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
};
// qkv: [T, (heads + 2 kv_heads) * head_dim], rotated in place (takes the tensor over) -> [T, heads
// * head_dim]. Causal within each sequence, scale 1 / sqrt(head_dim).
at::Tensor RopeAttention(const at::Tensor& qkv, const AttentionShape& shape, const RopeTable& rope,
                         const PackedBatch& batch);

// gate_up: [T, 2F] -> silu(gate) * up, [T, F].
at::Tensor SwiGlu(const at::Tensor& gate_up);

// Rows of x: [T, H] -> [N, H]; backward adds into zeros.
at::Tensor SelectRows(const at::Tensor& x, const at::Tensor& rows);

}  // namespace am::engine

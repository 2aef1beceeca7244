// Fused CPU kernels behind the operators of model/: one pass over memory where ATen would make five.
//
// Activations are contiguous [T, features], float32 or bfloat16, with float32 math inside; threads split the rows. On another
// device than the CPU the same functions run as ATen operators, with equal results.
#pragma once

#include <tuple>

#include <ATen/core/Tensor.h>

namespace am::engine::kernels {

// sum = residual + delta (delta may be undefined: sum is residual itself), rstd = 1 / sqrt(mean(sum^2) + eps) [T] float32,
// out = weight * round(sum * rstd). Rounding to the activation dtype before the weight, as transformers' LlamaRMSNorm.
std::tuple<at::Tensor, at::Tensor, at::Tensor> AddRmsNorm(const at::Tensor& residual, const at::Tensor& delta,
                                                          const at::Tensor& weight, double eps);
// Gradient of the sum, with the gradient that reached it by the residual path added (grad_sum may be undefined), and of the weight
// ([H] float32; undefined unless want_weight). Deterministic for a given thread count.
std::pair<at::Tensor, at::Tensor> AddRmsNormBackward(const at::Tensor& grad_sum, const at::Tensor& grad_out,
                                                     const at::Tensor& sum, const at::Tensor& rstd,
                                                     const at::Tensor& weight, bool want_weight);

// gate_up [T, 2F] (gate | up) -> silu(gate) * up [T, F].
at::Tensor SwiGlu(const at::Tensor& gate_up);
// -> gradient of gate_up [T, 2F].
at::Tensor SwiGluBackward(const at::Tensor& grad_out, const at::Tensor& gate_up);

// Rotates the first `heads` heads of every row of x [T, >= heads * head_dim] in place, halves paired (i, i + head_dim / 2).
// positions: [T] int32; cos, sin: [P, head_dim / 2] float32. inverse: by the negative angle, which is the gradient.
void RopeInPlace(at::Tensor& x, const at::Tensor& positions, const at::Tensor& cos, const at::Tensor& sin, int64_t heads,
                 int64_t head_dim, bool inverse);

// Causal attention within each sequence of a packed, rotated projection qkv [T, (heads + 2 kv_heads) * head_dim], scale
// 1 / sqrt(head_dim): returns out [T, heads * head_dim] and the log-sum-exp of each row and head, [T, heads] float32.
std::pair<at::Tensor, at::Tensor> VarlenAttention(const at::Tensor& qkv, at::ArrayRef<int64_t> cu_seqlens, int64_t heads,
                                                  int64_t kv_heads, int64_t head_dim);
// -> gradient of qkv.
at::Tensor VarlenAttentionBackward(const at::Tensor& grad_out, const at::Tensor& qkv, const at::Tensor& out,
                                   const at::Tensor& lse, at::ArrayRef<int64_t> cu_seqlens, int64_t heads, int64_t kv_heads,
                                   int64_t head_dim);

// Softmax cross entropy of logits [N, V] against targets [N] int64, in float32: returns the loss of each row ([N] float32).
// When grad_scale != 0, logits are overwritten with (softmax - onehot) * grad_scale in their own dtype.
at::Tensor CrossEntropyInPlace(at::Tensor& logits, const at::Tensor& targets, double grad_scale);

// table[ids[t]] += rows[t] for table [V, H] float32, rows [T, H], ids [T] int64; deterministic.
void AddRows(at::Tensor& table, const at::Tensor& ids, const at::Tensor& rows);

// destination += source, of the same shape; float32 += bfloat16 without a float32 copy of the source.
void AddInto(at::Tensor& destination, const at::Tensor& source);

}  // namespace am::engine::kernels

// The operators of kernels.h as fused loops, for float32 and bfloat16 on the CPU (kernels.cc
// chooses).
#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>
#include <utility>

namespace am::engine::kernels::cpu {

std::tuple<at::Tensor, at::Tensor, at::Tensor> AddRmsNorm(const at::Tensor& residual,
                                                          const at::Tensor& delta,
                                                          const at::Tensor& weight, double eps);
std::pair<at::Tensor, at::Tensor> AddRmsNormBackward(const at::Tensor& grad_sum,
                                                     const at::Tensor& grad_out,
                                                     const at::Tensor& sum, const at::Tensor& rstd,
                                                     const at::Tensor& weight, bool want_weight);
at::Tensor SwiGlu(const at::Tensor& gate_up);
at::Tensor SwiGluBackward(const at::Tensor& grad_out, const at::Tensor& gate_up);
void RopeInPlace(at::Tensor& x, const at::Tensor& positions, const at::Tensor& cos,
                 const at::Tensor& sin, int64_t heads, int64_t head_dim, bool inverse);
std::pair<at::Tensor, at::Tensor> VarlenAttention(const at::Tensor& qkv,
                                                  at::ArrayRef<int64_t> cu_seqlens, int64_t heads,
                                                  int64_t kv_heads, int64_t head_dim);
at::Tensor VarlenAttentionBackward(const at::Tensor& grad_out, const at::Tensor& qkv,
                                   const at::Tensor& out, const at::Tensor& lse,
                                   at::ArrayRef<int64_t> cu_seqlens, int64_t heads,
                                   int64_t kv_heads, int64_t head_dim);
at::Tensor CrossEntropyInPlace(at::Tensor& logits, const at::Tensor& targets, double grad_scale);
void AddRows(at::Tensor& table, const at::Tensor& ids, const at::Tensor& rows);
void AddInto(at::Tensor& destination, const at::Tensor& source);

}  // namespace am::engine::kernels::cpu

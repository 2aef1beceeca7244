#include "worker/engine/core/kernels.h"

#include "worker/engine/core/kernels_aten.h"
#include "worker/engine/core/kernels_cpu.h"

namespace am::engine::kernels {
namespace {

bool HasLoops(const at::Tensor& x) {
  return x.is_cpu() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16);
}

bool HasLoops(const at::Tensor& x, const at::Tensor& other) {
  return HasLoops(x) && other.scalar_type() == x.scalar_type();
}

}  // namespace

std::tuple<at::Tensor, at::Tensor, at::Tensor> AddRmsNorm(const at::Tensor& residual,
                                                          const at::Tensor& delta,
                                                          const at::Tensor& weight, double eps) {
  return HasLoops(residual, weight) ? cpu::AddRmsNorm(residual, delta, weight, eps)
                                    : aten::AddRmsNorm(residual, delta, weight, eps);
}

std::pair<at::Tensor, at::Tensor> AddRmsNormBackward(const at::Tensor& grad_sum,
                                                     const at::Tensor& grad_out,
                                                     const at::Tensor& sum, const at::Tensor& rstd,
                                                     const at::Tensor& weight, bool want_weight) {
  return HasLoops(sum, weight)
             ? cpu::AddRmsNormBackward(grad_sum, grad_out, sum, rstd, weight, want_weight)
             : aten::AddRmsNormBackward(grad_sum, grad_out, sum, rstd, weight, want_weight);
}

at::Tensor SwiGlu(const at::Tensor& gate_up) {
  return HasLoops(gate_up) ? cpu::SwiGlu(gate_up) : aten::SwiGlu(gate_up);
}

at::Tensor SwiGluBackward(const at::Tensor& grad_out, const at::Tensor& gate_up) {
  return HasLoops(gate_up) ? cpu::SwiGluBackward(grad_out, gate_up)
                           : aten::SwiGluBackward(grad_out, gate_up);
}

void RopeInPlace(at::Tensor& x, const at::Tensor& positions, const at::Tensor& cos,
                 const at::Tensor& sin, int64_t heads, int64_t head_dim, bool inverse) {
  HasLoops(x) ? cpu::RopeInPlace(x, positions, cos, sin, heads, head_dim, inverse)
              : aten::RopeInPlace(x, positions, cos, sin, heads, head_dim, inverse);
}

std::pair<at::Tensor, at::Tensor> VarlenAttention(const at::Tensor& qkv,
                                                  at::ArrayRef<int64_t> cu_seqlens, int64_t heads,
                                                  int64_t kv_heads, int64_t head_dim) {
  return HasLoops(qkv) && head_dim % 16 == 0
             ? cpu::VarlenAttention(qkv, cu_seqlens, heads, kv_heads, head_dim)
             : aten::VarlenAttention(qkv, cu_seqlens, heads, kv_heads, head_dim);
}

at::Tensor VarlenAttentionBackward(const at::Tensor& grad_out, const at::Tensor& qkv,
                                   const at::Tensor& out, const at::Tensor& lse,
                                   at::ArrayRef<int64_t> cu_seqlens, int64_t heads,
                                   int64_t kv_heads, int64_t head_dim) {
  return HasLoops(qkv) && head_dim % 16 == 0
             ? cpu::VarlenAttentionBackward(grad_out, qkv, out, lse, cu_seqlens, heads, kv_heads,
                                            head_dim)
             : aten::VarlenAttentionBackward(grad_out, qkv, out, lse, cu_seqlens, heads, kv_heads,
                                             head_dim);
}

at::Tensor CrossEntropyInPlace(at::Tensor& logits, const at::Tensor& targets, double grad_scale) {
  return HasLoops(logits) ? cpu::CrossEntropyInPlace(logits, targets, grad_scale)
                          : aten::CrossEntropyInPlace(logits, targets, grad_scale);
}

void AddRows(at::Tensor& table, const at::Tensor& ids, const at::Tensor& rows) {
  HasLoops(rows) && table.scalar_type() == at::kFloat ? cpu::AddRows(table, ids, rows)
                                                      : aten::AddRows(table, ids, rows);
}

void AddInto(at::Tensor& destination, const at::Tensor& source) {
  const bool flat = destination.is_contiguous() && source.is_contiguous() &&
                    destination.sizes() == source.sizes() && destination.is_cpu();
  flat&& HasLoops(source) && destination.scalar_type() == at::kFloat
      ? cpu::AddInto(destination, source)
      : aten::AddInto(destination, source);
}

}  // namespace am::engine::kernels

#include "worker/engine/core/kernels_aten.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/silu.h>

#include <cmath>

namespace am::engine::kernels::aten {

std::tuple<at::Tensor, at::Tensor, at::Tensor> AddRmsNorm(const at::Tensor& residual,
                                                          const at::Tensor& delta,
                                                          const at::Tensor& weight, double eps) {
  const at::Tensor sum = delta.defined() ? residual + delta : residual;
  const at::Tensor x = sum.to(at::kFloat);
  const at::Tensor rstd = at::rsqrt(x.pow(2).mean(-1) + eps);
  return {sum, weight * (x * rstd.unsqueeze(-1)).to(sum.scalar_type()), rstd};
}

std::pair<at::Tensor, at::Tensor> AddRmsNormBackward(const at::Tensor& grad_sum,
                                                     const at::Tensor& grad_out,
                                                     const at::Tensor& sum, const at::Tensor& rstd,
                                                     const at::Tensor& weight, bool want_weight) {
  const at::Tensor xhat = sum.to(at::kFloat) * rstd.unsqueeze(-1);
  const at::Tensor g = grad_out.to(at::kFloat);
  const at::Tensor gw = g * weight.to(at::kFloat);
  at::Tensor dx = (gw - xhat * (gw * xhat).mean(-1, true)) * rstd.unsqueeze(-1);
  if (grad_sum.defined()) dx += grad_sum;
  return {dx.to(sum.scalar_type()),
          want_weight ? (g * xhat.to(sum.scalar_type())).sum(0) : at::Tensor()};
}

at::Tensor SwiGlu(const at::Tensor& gate_up) {
  const auto parts = gate_up.chunk(2, -1);
  return at::silu(parts[0]) * parts[1];
}

at::Tensor SwiGluBackward(const at::Tensor& grad_out, const at::Tensor& gate_up) {
  const auto parts = gate_up.to(at::kFloat).chunk(2, -1);
  const at::Tensor g = grad_out.to(at::kFloat), s = at::sigmoid(parts[0]);
  return at::cat({g * parts[1] * s * (1 + parts[0] * (1 - s)), g * parts[0] * s}, -1)
      .to(gate_up.scalar_type());
}

void RopeInPlace(at::Tensor& x, const at::Tensor& positions, const at::Tensor& cos,
                 const at::Tensor& sin, int64_t heads, int64_t head_dim, bool inverse) {
  at::Tensor view = x.narrow(1, 0, heads * head_dim).view({x.size(0), heads, 2, head_dim / 2});
  const at::Tensor c = cos.index_select(0, positions).unsqueeze(1),
                   s0 = sin.index_select(0, positions).unsqueeze(1);
  const at::Tensor s = inverse ? -s0 : s0;
  const at::Tensor a = view.select(2, 0).to(at::kFloat, false, true),
                   b = view.select(2, 1).to(at::kFloat, false, true);
  view.select(2, 0).copy_(a * c - b * s);
  view.select(2, 1).copy_(b * c + a * s);
}

namespace {

struct Heads {
  at::Tensor q, k, v;  // [1, heads, length, head_dim], views
};
Heads SequenceHeads(const at::Tensor& qkv, int64_t begin, int64_t n, int64_t heads,
                    int64_t kv_heads, int64_t head_dim) {
  const at::Tensor rows = qkv.narrow(0, begin, n);
  const auto view = [&](int64_t first, int64_t count) {
    return rows.narrow(1, first * head_dim, count * head_dim)
        .view({1, n, count, head_dim})
        .transpose(1, 2);
  };
  return {view(0, heads), view(heads, kv_heads), view(heads + kv_heads, kv_heads)};
}

// [1, kv, n, d] -> [1, heads, n, d]: each key and value head serves a group of query heads.
at::Tensor Expand(const at::Tensor& x, int64_t group) {
  if (group == 1) return x;
  return x.unsqueeze(2)
      .expand({1, x.size(1), group, x.size(2), x.size(3)})
      .reshape({1, -1, x.size(2), x.size(3)});
}

}  // namespace

std::pair<at::Tensor, at::Tensor> VarlenAttention(const at::Tensor& qkv,
                                                  at::ArrayRef<int64_t> cu_seqlens, int64_t heads,
                                                  int64_t kv_heads, int64_t head_dim) {
  at::Tensor out = at::empty({qkv.size(0), heads * head_dim}, qkv.options());
  at::Tensor lse = at::empty({qkv.size(0), heads}, qkv.options().dtype(at::kFloat));
  for (size_t i = 0; i + 1 < cu_seqlens.size(); ++i) {
    const int64_t begin = cu_seqlens[i], n = cu_seqlens[i + 1] - begin;
    if (n == 0) continue;
    const Heads h = SequenceHeads(qkv, begin, n, heads, kv_heads, head_dim);
    auto [o, l] = at::_scaled_dot_product_flash_attention_for_cpu(
        h.q, Expand(h.k, heads / kv_heads), Expand(h.v, heads / kv_heads), 0.0, true);
    out.narrow(0, begin, n).copy_(o.transpose(1, 2).reshape({n, -1}));
    lse.narrow(0, begin, n).copy_(l[0].transpose(0, 1));
  }
  return {out, lse};
}

at::Tensor VarlenAttentionBackward(const at::Tensor& grad_out, const at::Tensor& qkv,
                                   const at::Tensor& out, const at::Tensor& lse,
                                   at::ArrayRef<int64_t> cu_seqlens, int64_t heads,
                                   int64_t kv_heads, int64_t head_dim) {
  at::Tensor grad = at::empty_like(qkv);
  const int64_t group = heads / kv_heads;
  for (size_t i = 0; i + 1 < cu_seqlens.size(); ++i) {
    const int64_t begin = cu_seqlens[i], n = cu_seqlens[i + 1] - begin;
    if (n == 0) continue;
    const Heads h = SequenceHeads(qkv, begin, n, heads, kv_heads, head_dim);
    const auto rows = [&](const at::Tensor& x) {
      return x.narrow(0, begin, n).view({1, n, heads, head_dim}).transpose(1, 2);
    };
    auto [gq, gk, gv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
        rows(grad_out), h.q, Expand(h.k, group), Expand(h.v, group), rows(out),
        lse.narrow(0, begin, n).transpose(0, 1).contiguous().unsqueeze(0), 0.0, true);
    const auto fold = [&](const at::Tensor& g) {
      return group == 1 ? g : g.contiguous().view({1, kv_heads, group, n, head_dim}).sum(2);
    };
    const Heads g = SequenceHeads(grad, begin, n, heads, kv_heads, head_dim);
    g.q.copy_(gq);
    g.k.copy_(fold(gk));
    g.v.copy_(fold(gv));
  }
  return grad;
}

at::Tensor CrossEntropyInPlace(at::Tensor& logits, const at::Tensor& targets, double grad_scale) {
  const at::Tensor log_probs = at::log_softmax(logits, -1, at::kFloat);
  const at::Tensor loss = -log_probs.gather(1, targets.unsqueeze(1)).squeeze(1);
  if (grad_scale != 0) {
    at::Tensor grad = log_probs.exp();
    grad.scatter_add_(1, targets.unsqueeze(1),
                      at::empty({targets.size(0), 1}, grad.options()).fill_(-1));
    logits.copy_(grad.mul_(grad_scale));
  }
  return loss;
}

void AddRows(at::Tensor& table, const at::Tensor& ids, const at::Tensor& rows) {
  table.index_add_(0, ids, rows.to(table.scalar_type()));
}

void AddInto(at::Tensor& destination, const at::Tensor& source) { destination.add_(source); }

}  // namespace am::engine::kernels::aten

#include "worker/engine/model/ops.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

#include "worker/engine/core/kernels.h"

namespace am::engine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::Variable;
using torch::autograd::variable_list;

// Nodes keep plain pointers to what outlives the pass: parameters, the batch, the RoPE table.
template <typename T>
int64_t Keep(const T& object) {
  return reinterpret_cast<int64_t>(&object);
}
template <typename T>
T& Kept(AutogradContext* ctx, const char* name) {
  return *reinterpret_cast<T*>(ctx->saved_data[name].toInt());
}

// Undefined tensors may not be handed to a node.
std::optional<at::Tensor> Present(const at::Tensor& tensor) {
  return tensor.defined() ? std::optional<at::Tensor>(tensor) : std::nullopt;
}

struct EmbedFunction : Function<EmbedFunction> {
  // `anchor` is an empty tensor that requires grad: through it the graph exists even over frozen
  // weights.
  static Variable forward(AutogradContext* ctx, Variable /*anchor*/, Parameter* weight,
                          Variable ids, int64_t padding_id) {
    ctx->saved_data["weight"] = Keep(*weight);
    ctx->saved_data["padding_id"] = padding_id;
    ctx->save_for_backward({ids});
    return at::embedding(weight->value, ids);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto& weight = Kept<Parameter>(ctx, "weight");
    if (weight.trainable) {
      const at::Tensor ids = ctx->get_saved_variables()[0];
      bool first = false;
      at::Tensor& grad = weight.GradBuffer(&first);
      if (first) grad.zero_();
      const at::Tensor learning =
          ids.ne(ctx->saved_data["padding_id"].toInt()).nonzero().squeeze(1);
      kernels::AddRows(grad, ids.index_select(0, learning), grads[0].index_select(0, learning));
    }
    return {Variable(), Variable(), Variable(), Variable()};
  }
};

struct AddRmsNormFunction : Function<AddRmsNormFunction> {
  static variable_list forward(AutogradContext* ctx, Variable residual,
                               std::optional<Variable> delta, Parameter* weight, double eps) {
    auto [sum, out, rstd] =
        kernels::AddRmsNorm(residual, delta.value_or(Variable()), weight->value, eps);
    ctx->saved_data["weight"] = Keep(*weight);
    ctx->saved_data["has_delta"] = delta.has_value();
    ctx->save_for_backward({sum, rstd});
    return {sum, out};
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto& weight = Kept<Parameter>(ctx, "weight");
    const auto saved = ctx->get_saved_variables();
    auto [grad_in, grad_weight] = kernels::AddRmsNormBackward(
        grads[0], grads[1].contiguous(), saved[0], saved[1], weight.value, weight.trainable);
    if (weight.trainable) weight.AddGrad(grad_weight);
    return {grad_in, ctx->saved_data["has_delta"].toBool() ? grad_in : Variable(), Variable(),
            Variable()};
  }
};

struct SwiGluFunction : Function<SwiGluFunction> {
  static Variable forward(AutogradContext* ctx, Variable gate_up) {
    ctx->save_for_backward({gate_up});
    return kernels::SwiGlu(gate_up);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {kernels::SwiGluBackward(grads[0].contiguous(), ctx->get_saved_variables()[0])};
  }
};

struct SelectRowsFunction : Function<SelectRowsFunction> {
  static Variable forward(AutogradContext* ctx, Variable x, Variable rows) {
    ctx->saved_data["size"] = x.size(0);
    ctx->save_for_backward({rows});
    return x.index_select(0, rows);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    at::Tensor full =
        at::zeros({ctx->saved_data["size"].toInt(), grads[0].size(1)}, grads[0].options());
    full.index_copy_(0, ctx->get_saved_variables()[0], grads[0]);
    return {full, Variable()};
  }
};

struct RopeAttentionFunction : Function<RopeAttentionFunction> {
  static Variable forward(AutogradContext* ctx, Variable qkv, const AttentionShape* shape,
                          const RopeTable* rope, const PackedBatch* batch) {
    at::Tensor rotated = qkv.detach();
    kernels::RopeInPlace(rotated, batch->positions, rope->cos(), rope->sin(),
                         shape->heads + shape->kv_heads, shape->head_dim, /*inverse=*/false);
    auto [out, lse] = kernels::VarlenAttention(rotated, batch->cu_seqlens, shape->heads,
                                               shape->kv_heads, shape->head_dim);
    ctx->saved_data["shape"] = Keep(*shape);
    ctx->saved_data["rope"] = Keep(*rope);
    ctx->saved_data["batch"] = Keep(*batch);
    ctx->save_for_backward({rotated, out, lse});
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto& shape = Kept<const AttentionShape>(ctx, "shape");
    const auto& rope = Kept<const RopeTable>(ctx, "rope");
    const auto& batch = Kept<const PackedBatch>(ctx, "batch");
    const auto saved = ctx->get_saved_variables();
    at::Tensor grad = kernels::VarlenAttentionBackward(grads[0].contiguous(), saved[0], saved[1],
                                                       saved[2], batch.cu_seqlens, shape.heads,
                                                       shape.kv_heads, shape.head_dim);
    kernels::RopeInPlace(grad, batch.positions, rope.cos(), rope.sin(),
                         shape.heads + shape.kv_heads, shape.head_dim,
                         /*inverse=*/true);
    return {grad, Variable(), Variable(), Variable()};
  }
};

}  // namespace

at::Tensor Embed(Parameter& weight, const at::Tensor& ids, int64_t padding_id) {
  at::Tensor anchor = at::empty({0}, weight.value.options());
  anchor.requires_grad_(true);
  return EmbedFunction::apply(anchor, &weight, ids, padding_id);
}

std::pair<at::Tensor, at::Tensor> AddRmsNorm(Parameter& weight, double eps,
                                             const at::Tensor& residual, const at::Tensor& delta) {
  const auto out = AddRmsNormFunction::apply(residual, Present(delta), &weight, eps);
  return {out[0], out[1]};
}

at::Tensor RopeAttention(const at::Tensor& qkv, const AttentionShape& shape, const RopeTable& rope,
                         const PackedBatch& batch) {
  return RopeAttentionFunction::apply(qkv, &shape, &rope, &batch);
}

at::Tensor SwiGlu(const at::Tensor& gate_up) { return SwiGluFunction::apply(gate_up); }

at::Tensor SelectRows(const at::Tensor& x, const at::Tensor& rows) {
  return SelectRowsFunction::apply(x, rows);
}

}  // namespace am::engine

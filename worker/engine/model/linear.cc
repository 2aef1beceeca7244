#include "worker/engine/model/linear.h"

#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <torch/csrc/autograd/custom_function.h>

#include "worker/engine/core/dropout.h"

namespace am::engine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::Variable;
using torch::autograd::variable_list;

// What a pass needs to draw the same dropout mask again in backward.
struct DropoutKeys {
  const PackedBatch* batch;
  PassContext pass;
  at::Tensor rows_of;
};

bool Drops(const Linear& linear, const PassContext& pass) {
  return linear.lora && linear.lora->dropout > 0 && pass.training;
}

// Multiplies x [T, F] by its keep mask / (1 - p), in place. The mask is a function of (seed, step,
// layer, site) and of (sample, position, feature), so it is the same on every layout and in
// backward.
void DropInPlace(at::Tensor& x, const Lora& lora, const DropoutKeys& keys, int64_t first_feature) {
  ApplyDropout(x, lora.dropout,
               {.seed = keys.pass.seed,
                .step = static_cast<uint64_t>(keys.pass.step),
                .layer = lora.layer,
                .site = lora.site},
               keys.batch->samples, keys.batch->positions, keys.rows_of, first_feature);
}

at::Tensor LoraForward(const Linear& linear, const at::Tensor& x, at::Tensor& y,
                       const DropoutKeys& keys) {
  const Lora& lora = *linear.lora;
  const bool drops = Drops(linear, keys.pass);
  at::Tensor in = x;
  if (drops && lora.dropout_pre) {
    in = x.clone();
    DropInPlace(in, lora, keys, 0);
  }
  at::Tensor low = at::mm(in, lora.a.value.t()).mul_(lora.scale);  // [T, targets * rank]
  for (size_t i = 0; i < lora.targets.size(); ++i) {
    const LoraTarget& target = lora.targets[i];
    const at::Tensor part = low.narrow(1, static_cast<int64_t>(i) * lora.rank, lora.rank);
    const at::Tensor b = lora.b.value.narrow(0, target.b_begin, target.out_rows);
    at::Tensor columns = y.narrow(1, target.out_begin, target.out_rows);
    if (drops && !lora.dropout_pre) {
      at::Tensor up = at::mm(part, b.t());
      DropInPlace(up, lora, keys, target.out_begin);
      columns.add_(up);
    } else {
      columns.addmm_(part, b.t());
    }
  }
  return low;
}

void LoraBackward(Linear& linear, const at::Tensor& x, const at::Tensor& low,
                  const at::Tensor& grad_out, at::Tensor& grad_x, const DropoutKeys& keys) {
  Lora& lora = *linear.lora;
  const bool drops = Drops(linear, keys.pass);
  at::Tensor grad_low = at::empty(low.sizes(), low.options());
  at::Tensor grad_b = at::empty(lora.b.shape, lora.b.value.options());
  for (size_t i = 0; i < lora.targets.size(); ++i) {
    const LoraTarget& target = lora.targets[i];
    const int64_t a_begin = static_cast<int64_t>(i) * lora.rank;
    at::Tensor g = grad_out.narrow(1, target.out_begin, target.out_rows);
    if (drops && !lora.dropout_pre) {
      g = g.clone();
      DropInPlace(g, lora, keys, target.out_begin);
    }
    at::Tensor rows = grad_b.narrow(0, target.b_begin, target.out_rows);
    at::mm_out(rows, g.t(), low.narrow(1, a_begin, lora.rank));
    at::Tensor columns = grad_low.narrow(1, a_begin, lora.rank);
    columns.copy_(at::mm(g, lora.b.value.narrow(0, target.b_begin, target.out_rows)));
  }
  grad_low.mul_(lora.scale);
  lora.b.AddGrad(grad_b);
  if (drops && lora.dropout_pre) {
    at::Tensor in = x.clone();
    DropInPlace(in, lora, keys, 0);
    lora.a.AddOuterGrad(grad_low, in);
    at::Tensor back = at::mm(grad_low, lora.a.value);
    DropInPlace(back, lora, keys, 0);
    grad_x.add_(back);
  } else {
    lora.a.AddOuterGrad(grad_low, x);
    grad_x.addmm_(grad_low, lora.a.value);
  }
}

struct LinearFunction : Function<LinearFunction> {
  static Variable forward(AutogradContext* ctx, Variable x, Linear* linear,
                          const DropoutKeys& keys) {
    const at::Tensor w = linear->weight.value.t();
    at::Tensor y = linear->bias ? at::addmm(linear->bias->value, x, w) : at::mm(x, w);
    at::Tensor low;
    if (linear->lora) low = LoraForward(*linear, x, y, keys);
    ctx->saved_data["linear"] = reinterpret_cast<int64_t>(linear);
    ctx->saved_data["batch"] = reinterpret_cast<int64_t>(keys.batch);
    ctx->saved_data["seed"] = static_cast<int64_t>(keys.pass.seed);
    ctx->saved_data["step"] = keys.pass.step;
    ctx->saved_data["training"] = keys.pass.training;
    ctx->save_for_backward({x, low, keys.rows_of});
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    Linear& linear = *reinterpret_cast<Linear*>(ctx->saved_data["linear"].toInt());
    const auto saved = ctx->get_saved_variables();
    const at::Tensor& x = saved[0];
    const at::Tensor grad_out = grads[0].contiguous();
    at::Tensor grad_x = at::mm(grad_out, linear.weight.value);
    if (linear.weight.trainable) linear.weight.AddOuterGrad(grad_out, x);
    if (linear.bias && linear.bias->trainable)
      linear.bias->AddGrad(grad_out.sum(0, false, at::kFloat));
    if (linear.lora) {
      const DropoutKeys keys{reinterpret_cast<const PackedBatch*>(ctx->saved_data["batch"].toInt()),
                             {.training = ctx->saved_data["training"].toBool(),
                              .seed = static_cast<uint64_t>(ctx->saved_data["seed"].toInt()),
                              .step = ctx->saved_data["step"].toInt()},
                             saved[2]};
      LoraBackward(linear, x, saved[1], grad_out, grad_x, keys);
    }
    return {grad_x, Variable(), Variable()};
  }
};

}  // namespace

Linear::Linear(std::vector<std::pair<std::string, int64_t>> parts, int64_t in, bool with_bias,
               uint32_t layer_index, uint32_t site_index)
    : layer(layer_index), site(site_index) {
  int64_t out = 0;
  if (with_bias) bias = std::make_unique<Parameter>();
  for (const auto& [module, rows] : parts) {
    modules.push_back(module);
    weight.pieces.push_back({module + ".weight", out, rows});
    if (bias) bias->pieces.push_back({module + ".bias", out, rows});
    out += rows;
  }
  weight.name = weight.pieces.front().name;
  weight.shape = {out, in};
  if (bias) {
    bias->name = bias->pieces.front().name;
    bias->shape = {out};
  }
}

at::Tensor Apply(Linear& linear, const at::Tensor& x, const PackedBatch& batch,
                 const PassContext& pass, const at::Tensor& rows_of) {
  return LinearFunction::apply(x, &linear, DropoutKeys{&batch, pass, rows_of});
}

}  // namespace am::engine

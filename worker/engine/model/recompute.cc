#include "worker/engine/model/recompute.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <optional>

namespace am::engine {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::Variable;
using torch::autograd::variable_list;
using RunFunction = std::function<Stream(const Stream&)>;

struct Holder : torch::CustomClassHolder {
  RunFunction run;
};

struct RecomputeFunction : Function<RecomputeFunction> {
  static variable_list forward(AutogradContext* ctx, Variable residual,
                               std::optional<Variable> delta_if, const RunFunction& run) {
    const Variable delta = delta_if.value_or(Variable());
    auto holder = c10::make_intrusive<Holder>();
    holder->run = run;
    ctx->saved_data["run"] = c10::IValue::make_capsule(holder);
    ctx->save_for_backward({residual, delta});
    const Stream out = run({residual, delta});
    return {out.residual, out.delta};
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const auto holder =
        c10::static_intrusive_pointer_cast<Holder>(ctx->saved_data["run"].toCapsule());
    const auto saved = ctx->get_saved_variables();
    const at::AutoGradMode record(true);
    Stream in;
    variable_list inputs;
    for (auto [from, to] : {std::pair{&saved[0], &in.residual}, {&saved[1], &in.delta}}) {
      if (!from->defined()) continue;
      *to = from->detach().requires_grad_(true);
      inputs.push_back(*to);
    }
    const Stream out = holder->run(in);
    variable_list outputs, output_grads;
    for (auto [tensor, grad] : {std::pair{&out.residual, &grads[0]}, {&out.delta, &grads[1]}}) {
      if (!tensor->defined() || !grad->defined()) continue;
      outputs.push_back(*tensor);
      output_grads.push_back(*grad);
    }
    const variable_list result = torch::autograd::grad(outputs, inputs, output_grads);
    return {result[0], inputs.size() > 1 ? result[1] : Variable(), Variable()};
  }
};

}  // namespace

Stream Recompute(const RunFunction& run, const Stream& stream) {
  const auto out = RecomputeFunction::apply(
      stream.residual,
      stream.delta.defined() ? std::optional<at::Tensor>(stream.delta) : std::nullopt, run);
  return {out[0], out[1]};
}

}  // namespace am::engine

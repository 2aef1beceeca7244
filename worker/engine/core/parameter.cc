#include "worker/engine/core/parameter.h"

#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include "common/error.h"
#include "worker/engine/core/kernels.h"

namespace am::engine {
namespace {

std::string ToText(at::IntArrayRef shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + "]";
}

}  // namespace

int64_t Parameter::numel() const {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

void Parameter::AddGrad(at::Tensor g) {
  if (g.sizes() != at::IntArrayRef(shape)) {
    throw InternalError("gradient of " + name + ": shape " + ToText(g.sizes()) + ", expected " +
                        ToText(shape));
  }
  if (!grad.defined() && !grad_home.defined()) {
    grad = std::move(g);
    return;
  }
  bool first = false;
  at::Tensor& buffer = GradBuffer(&first);
  if (first) {
    buffer.copy_(g);
  } else {
    kernels::AddInto(buffer, g);
  }
}

at::Tensor& Parameter::GradBuffer(bool* first) {
  *first = !grad.defined();
  if (*first) {
    const auto device = value.defined() ? value.device() : at::Device(at::kCPU);
    grad = grad_home.defined() ? grad_home
                               : at::empty(shape, at::TensorOptions().dtype(at::kFloat).device(device));
  } else if (grad.scalar_type() != at::kFloat) {
    grad = grad.to(at::kFloat);
  }
  return grad;
}

void Parameter::AddOuterGrad(const at::Tensor& g, const at::Tensor& x) {
  if (x.scalar_type() != at::kFloat) {
    AddGrad(at::mm(g.t(), x));
    return;
  }
  bool first = false;
  at::Tensor& buffer = GradBuffer(&first);
  if (first) {
    at::mm_out(buffer, g.t(), x);
  } else {
    buffer.addmm_(g.t(), x);
  }
}

void Parameter::ClearGrad() { grad.reset(); }

}  // namespace am::engine

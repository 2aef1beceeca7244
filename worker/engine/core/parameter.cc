#include "worker/engine/core/parameter.h"

#include <ATen/ops/empty.h>

#include "common/error.h"

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

void Parameter::AddGrad(const at::Tensor& g) {
  if (g.sizes() != at::IntArrayRef(shape)) {
    throw InternalError("gradient of " + name + ": shape " + ToText(g.sizes()) + ", expected " +
                        ToText(shape));
  }
  bool first = false;
  if (!value.defined() && !grad.defined() && !grad_home.defined()) {
    grad = at::empty(shape, g.options().dtype(grad_dtype));
    first = true;
  }
  at::Tensor& buffer = first ? grad : GradBuffer(&first);
  if (first) {
    buffer.copy_(g);
  } else {
    buffer.add_(g);
  }
}

at::Tensor& Parameter::GradBuffer(bool* first) {
  *first = !grad.defined();
  if (*first) {
    if (grad_home.defined()) {
      grad = grad_home;
    } else if (value.defined()) {
      grad = at::empty(shape, value.options().dtype(grad_dtype));
    } else {
      throw InternalError("gradient of " + name +
                          ": asked for while the parameter is sharded away");
    }
  }
  return grad;
}

void Parameter::ClearGrad() { grad.reset(); }

}  // namespace am::engine

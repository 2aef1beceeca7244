#include "worker/engine/comm/checks.h"

#include <sstream>

#include "common/error.h"

namespace am::engine {
namespace {

std::string Describe(const at::Tensor& tensor) {
  std::ostringstream text;
  text << tensor.scalar_type() << " " << tensor.sizes() << " on " << tensor.device();
  return text.str();
}

void CheckTensor(const std::string& collective, const char* which, const at::Tensor& tensor) {
  if (!tensor.defined()) throw InternalError(collective + ": the " + which + " is undefined");
  if (!tensor.is_contiguous()) {
    throw InternalError(collective + ": the " + which + " (" + Describe(tensor) +
                        ") is not contiguous");
  }
  switch (tensor.scalar_type()) {
    case at::kFloat:
    case at::kDouble:
    case at::kHalf:
    case at::kBFloat16:
    case at::kLong:
    case at::kInt:
    case at::kByte:
    case at::kChar:
      return;
    default:
      throw InternalError(collective + ": the " + which + " (" + Describe(tensor) +
                          ") has a dtype that the backends do not carry");
  }
}

// `whole` must hold `size` times what `part` holds.
void CheckParts(const std::string& collective, const char* whole_name, const at::Tensor& whole,
                const char* part_name, const at::Tensor& part, int size) {
  CheckTensor(collective, whole_name, whole);
  CheckTensor(collective, part_name, part);
  if (whole.scalar_type() != part.scalar_type() || whole.device() != part.device() ||
      whole.numel() != part.numel() * size) {
    throw InternalError(collective + " of " + std::to_string(size) + ": the " + whole_name +
                        " is " + Describe(whole) + ", the " + part_name + " is " + Describe(part) +
                        "; the " + whole_name + " must hold " + std::to_string(size) +
                        " times as many elements of the same dtype");
  }
}

}  // namespace

void CheckInPlace(const char* collective, const at::Tensor& tensor) {
  CheckTensor(collective, "tensor", tensor);
}

void CheckAllGather(const at::Tensor& out, const at::Tensor& in, int size) {
  CheckParts("all-gather", "output", out, "input", in, size);
}

void CheckReduceScatter(const at::Tensor& out, const at::Tensor& in, int size) {
  CheckParts("reduce-scatter", "input", in, "output", out, size);
}

void CheckRoot(int root, int size) {
  if (root < 0 || root >= size) {
    throw InternalError("broadcast of " + std::to_string(size) + ": root " + std::to_string(root) +
                        "; use 0 to " + std::to_string(size - 1));
  }
}

}  // namespace am::engine

// Checks of a collective's tensors before a backend sees them: Gloo aborts the whole process on
// some wrong shapes, and neither Gloo nor NCCL says which call was wrong. Pure functions; each
// throws am::Error (kInternal) that names the collective and the two shapes. `size` is the number
// of members.
#pragma once

#include <ATen/core/Tensor.h>

namespace am::engine {

void CheckInPlace(const char* collective, const at::Tensor& tensor);
void CheckAllGather(const at::Tensor& out, const at::Tensor& in, int size);
void CheckReduceScatter(const at::Tensor& out, const at::Tensor& in, int size);
void CheckRoot(int root, int size);

}  // namespace am::engine

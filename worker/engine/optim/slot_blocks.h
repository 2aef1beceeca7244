// Slots as blocks: the flat pieces of a step, cut into blocks that fit the first-level cache and
// dealt to the threads in one parallel region, however large or small the pieces are.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "worker/engine/optim/optimizer.h"

namespace am::engine {

constexpr int64_t kBlockElements = 1024;

// f(slot, begin, end): elements of slot number `slot`; called from several threads, once for every
// block.
void ForEachBlock(const std::vector<OptimizerSlot>& slots,
                  const std::function<void(size_t slot, int64_t begin, int64_t end)>& f);

// Throws am::Error (kInternal) that names the slot where its tensors do not belong together.
void CheckSlot(const OptimizerSlot& slot, const at::Tensor& state);

// A block of a tensor as float32: the tensor's own memory where it is float32, else a converted
// copy that Store writes back.
class FloatBlock {
 public:
  FloatBlock(const at::Tensor& tensor, int64_t begin, int64_t n);
  float* data() { return data_; }
  void Store();

 private:
  const at::Tensor& tensor_;
  int64_t begin_;
  int64_t n_;
  float* data_;
  alignas(64) float copy_[kBlockElements];
};

// Writes a float32 block into `tensor` at `begin`, rounded to its dtype.
void StoreBlock(const float* values, const at::Tensor& tensor, int64_t begin, int64_t n);

}  // namespace am::engine

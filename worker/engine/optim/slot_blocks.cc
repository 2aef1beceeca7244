#include "worker/engine/optim/slot_blocks.h"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "common/error.h"
#include "worker/engine/core/convert.h"
#include "worker/engine/core/parallel_for.h"

namespace am::engine {
namespace {

constexpr int64_t kBlocksPerThread = 8;  // below that a second thread costs more than it brings

bool IsFloating16(at::ScalarType dtype) { return dtype == at::kBFloat16 || dtype == at::kHalf; }

}  // namespace

void ForEachBlock(const std::vector<OptimizerSlot>& slots,
                  const std::function<void(size_t, int64_t, int64_t)>& f) {
  std::vector<int64_t> first_block(slots.size() + 1, 0);
  for (size_t i = 0; i < slots.size(); ++i) {
    first_block[i + 1] =
        first_block[i] + (slots[i].master.numel() + kBlockElements - 1) / kBlockElements;
  }
  ParallelFor(0, first_block.back(), kBlocksPerThread, [&](int64_t begin, int64_t end) {
    size_t slot =
        std::upper_bound(first_block.begin(), first_block.end(), begin) - first_block.begin() - 1;
    for (int64_t block = begin; block < end; ++block) {
      while (block >= first_block[slot + 1]) ++slot;
      const int64_t first = (block - first_block[slot]) * kBlockElements;
      f(slot, first, std::min(first + kBlockElements, slots[slot].master.numel()));
    }
  });
}

void CheckSlot(const OptimizerSlot& slot, const at::Tensor& state) {
  const auto check = [&](const char* what, const at::Tensor& tensor) {
    const bool known = tensor.scalar_type() == at::kFloat || IsFloating16(tensor.scalar_type());
    if (known && tensor.is_contiguous() && tensor.numel() == slot.master.numel() &&
        tensor.device() == slot.master.device()) {
      return;
    }
    std::ostringstream text;
    text << "optimizer: the " << what << " of " << slot.name << " is " << tensor.scalar_type()
         << " " << tensor.sizes() << " on " << tensor.device() << ", the master "
         << slot.master.scalar_type() << " " << slot.master.sizes() << " on "
         << slot.master.device();
    throw InternalError(text.str());
  };
  check("master", slot.master);
  if (slot.compute.defined()) check("compute copy", slot.compute);
  if (slot.grad.defined()) check("gradient", slot.grad);
  if (state.defined()) check("state", state);
}

FloatBlock::FloatBlock(const at::Tensor& tensor, int64_t begin, int64_t n)
    : tensor_(tensor), begin_(begin), n_(n), data_(copy_) {
  if (tensor.scalar_type() == at::kFloat) {
    data_ = static_cast<float*>(tensor.data_ptr()) + begin;
  } else if (tensor.scalar_type() == at::kBFloat16) {
    ToFloat(static_cast<const c10::BFloat16*>(tensor.data_ptr()) + begin, copy_, n);
  } else {
    ToFloat(static_cast<const c10::Half*>(tensor.data_ptr()) + begin, copy_, n);
  }
}

void FloatBlock::Store() {
  if (data_ == copy_) StoreBlock(copy_, tensor_, begin_, n_);
}

void StoreBlock(const float* values, const at::Tensor& tensor, int64_t begin, int64_t n) {
  if (tensor.scalar_type() == at::kFloat) {
    std::memcpy(static_cast<float*>(tensor.data_ptr()) + begin, values, n * sizeof(float));
  } else if (tensor.scalar_type() == at::kBFloat16) {
    FromFloat(values, static_cast<c10::BFloat16*>(tensor.data_ptr()) + begin, n);
  } else {
    FromFloat(values, static_cast<c10::Half*>(tensor.data_ptr()) + begin, n);
  }
}

}  // namespace am::engine

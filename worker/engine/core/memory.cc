#include "worker/engine/core/memory.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "common/error.h"

namespace am::engine {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

void KeepFreedMemory() {
  if (getenv("MALLOC_MMAP_MAX_") == nullptr) mallopt(M_MMAP_MAX, 0);
  if (getenv("MALLOC_TRIM_THRESHOLD_") == nullptr) mallopt(M_TRIM_THRESHOLD, -1);
}

at::Tensor ZeroPages(int64_t numel, const at::TensorOptions& options) {
  if (!options.device().is_cpu() || numel == 0) return at::zeros({numel}, options);
  const size_t bytes = static_cast<size_t>(numel) * options.dtype().itemsize();
  // Whole huge pages, where there are such: a fault for each 4 KiB costs more than the zeros.
  const size_t mapped = bytes + kHugePage;
  void* data = mmap(nullptr, mapped, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED)
    throw IoError("no memory for " + std::to_string(bytes) + " bytes: " + std::strerror(errno));
  const auto start = (reinterpret_cast<uintptr_t>(data) + kHugePage - 1) / kHugePage * kHugePage;
  if (bytes >= kHugePage) madvise(reinterpret_cast<void*>(start), bytes, MADV_HUGEPAGE);
  return at::from_blob(
      reinterpret_cast<void*>(start), {numel}, [data, mapped](void*) { munmap(data, mapped); },
      options);
}

}  // namespace am::engine

#include "worker/engine/core/memory.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "common/error.h"
#include "worker/engine/core/parallel_for.h"

namespace am::engine {

void KeepFreedMemory() {
  if (getenv("MALLOC_MMAP_MAX_") == nullptr) mallopt(M_MMAP_MAX, 0);
  if (getenv("MALLOC_TRIM_THRESHOLD_") == nullptr) mallopt(M_TRIM_THRESHOLD, -1);
}

at::Tensor ZeroPages(int64_t numel, const at::TensorOptions& options) {
  if (!options.device().is_cpu() || numel == 0) return at::zeros({numel}, options);
  const size_t bytes = static_cast<size_t>(numel) * options.dtype().itemsize();
  // No huge pages: where memory is fragmented the kernel first compacts it, two seconds a GiB on a
  // virtual machine.
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED)
    throw IoError("no memory for " + std::to_string(bytes) + " bytes: " + std::strerror(errno));
  return at::from_blob(
      data, {numel}, [bytes](void* start) { munmap(start, bytes); }, options);
}

void PopulatePages(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.device().is_cpu() || tensor.numel() == 0) return;
  constexpr size_t kPiece = size_t{16} << 20;  // a whole number of pages
  constexpr size_t kPage = 4096;
  const auto begin = reinterpret_cast<uintptr_t>(tensor.data_ptr()) / kPage * kPage;
  const uintptr_t end = reinterpret_cast<uintptr_t>(tensor.data_ptr()) + tensor.nbytes();
  ParallelTasks(static_cast<int64_t>((end - begin + kPiece - 1) / kPiece), [&](int64_t piece) {
    const uintptr_t from = begin + static_cast<size_t>(piece) * kPiece;
    // A kernel before 5.14 does not know this; its pages come one by one then.
    madvise(reinterpret_cast<void*>(from), std::min(kPiece, end - from), MADV_POPULATE_WRITE);
  });
}

}  // namespace am::engine

#include "worker/engine/core/memory.h"

#include <malloc.h>
#include <stdlib.h>

namespace am::engine {

void KeepFreedMemory() {
  if (getenv("MALLOC_MMAP_MAX_") == nullptr) mallopt(M_MMAP_MAX, 0);
  if (getenv("MALLOC_TRIM_THRESHOLD_") == nullptr) mallopt(M_TRIM_THRESHOLD, -1);
  setenv("THP_MEM_ALLOC_ENABLE", "1", /*overwrite=*/0);  // read by LibTorch's CPU allocator
}

}  // namespace am::engine

#include "worker/engine/core/memory.h"

#include <malloc.h>
#include <stdlib.h>

namespace am::engine {

void KeepFreedMemory() {
  if (getenv("MALLOC_MMAP_MAX_") == nullptr) mallopt(M_MMAP_MAX, 0);
  if (getenv("MALLOC_TRIM_THRESHOLD_") == nullptr) mallopt(M_TRIM_THRESHOLD, -1);
}

}  // namespace am::engine

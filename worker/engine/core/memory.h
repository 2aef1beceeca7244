// KeepFreedMemory: what a training step frees, the next step takes again.
//
// glibc hands large blocks back to the kernel, and every step would then touch its gigabytes of
// activations and gradients as fresh pages: ten times the cost of writing them (0.35 ms a megabyte
// against 0.03 on a virtual machine). After this call freed memory stays with the process, in huge
// pages where the kernel grants them on request; the resident size is that of the largest step.
// Call first in main, before any tensor is made. An operator's MALLOC_* and THP_MEM_ALLOC_ENABLE
// settings win.
#pragma once

namespace am::engine {

void KeepFreedMemory();

}  // namespace am::engine

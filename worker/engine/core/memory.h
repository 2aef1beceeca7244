// KeepFreedMemory: what a training step frees, the next step takes again.
//
// glibc hands large blocks back to the kernel, and every step would then touch its activations and
// gradients as fresh pages: ten times the cost of writing them (0.35 ms a megabyte against 0.03 on
// a virtual machine). After this call freed memory stays with the process; its resident size is
// that of the largest step. Call first in main, before any tensor is made. MALLOC_MMAP_MAX_ and
// MALLOC_TRIM_THRESHOLD_ in the environment win.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace am::engine {

void KeepFreedMemory();

// A flat tensor of zeros whose pages the kernel hands out when they are first written, by the
// thread that writes: what is filled soon (weights) is not written twice. On another device than
// the CPU: at::zeros.
at::Tensor ZeroPages(int64_t numel, const at::TensorOptions& options);

// Makes the pages of such a tensor present, on all threads; its values stay. For memory that is
// read before it is written: each page would otherwise be faulted twice, the second time with all
// threads interrupted.
void PopulatePages(const at::Tensor& tensor);

}  // namespace am::engine

// The two backends behind process_groups.cc, each made in the one file that sees its headers. A
// group of `size` members meets through `store`; the call returns when they are connected (Gloo) or
// throws.
#pragma once

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace am::engine {

using BackendPtr = c10::intrusive_ptr<c10d::Backend>;
using StorePtr = c10::intrusive_ptr<c10d::Store>;

// `local_address`: numeric, the interface that Gloo listens on.
BackendPtr MakeGlooBackend(const StorePtr& store, int rank, int size,
                           const std::string& local_address, std::chrono::milliseconds timeout);
BackendPtr MakeNcclBackend(const StorePtr& store, int rank, int size,
                           std::chrono::milliseconds timeout);
// The GPU that this process has made current.
c10::Device CurrentCudaDevice();

}  // namespace am::engine

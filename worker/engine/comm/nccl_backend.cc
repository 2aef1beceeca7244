// The only file that sees NCCL's headers; compiled when the wheel is a CUDA build.
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "worker/engine/comm/backends.h"

namespace am::engine {

BackendPtr MakeNcclBackend(const StorePtr& store, int rank, int size,
                           std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, options);
}

c10::Device CurrentCudaDevice() {
  return c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA)->getDevice();
}

}  // namespace am::engine

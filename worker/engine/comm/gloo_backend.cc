// The only file that sees Gloo's headers, which are Debian's and older than the Gloo inside
// LibTorch: it names no gloo:: type of its own and lets ProcessGroupGloo make every gloo:: object
// (GlooSymbolsTest holds it to that).
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "worker/engine/comm/backends.h"

namespace am::engine {

BackendPtr MakeGlooBackend(const StorePtr& store, int rank, int size,
                           const std::string& local_address, std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(local_address));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
}

}  // namespace am::engine

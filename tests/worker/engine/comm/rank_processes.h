// RunRanks: runs the body of a test in several processes, as the ranks of a job.
//
// The test program starts itself once a rank with only the calling test selected; there the call
// runs `body` and leaves the process. In the first process it hands rank 0 a listening socket, as
// the agent does, waits for all, and fails the test when a rank failed. Usage, as the whole of a
// test:
//   RunRanks(2, [](const RendezvousOptions& options) { auto groups = ProcessGroups::Join(options);
//   ... });
#pragma once

#include <functional>
#include <vector>

#include "worker/engine/comm/communicator.h"

namespace am::engine {

// The ranks of `killed` are expected to die by SIGKILL, all others to leave without a failure.
void RunRanks(int world_size, const std::function<void(const RendezvousOptions&)>& body,
              const std::vector<int>& killed = {});

}  // namespace am::engine

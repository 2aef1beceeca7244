// RunAgent: a whole agent, from dialling the controller to the end of its stream. What am-worker
// is, and what `amctl run` has on a thread of its own.
#pragma once

#include <string>

#include "common/clock.h"
#include "common/process.h"
#include "worker/agent/worker_agent.h"

namespace am::agent {

// Blocks until the controller has closed the stream (or was lost) and every process of ours is
// gone. Returns why.
std::string RunAgent(const std::string& controller_address, const Clock& clock, Spawner& spawner,
                     AgentOptions options);

}  // namespace am::agent

// RunAgent: a whole agent, from dialling the controller to the end of its work. What am-worker is,
// and what `amctl run` has on a thread of its own.
//
// With AgentOptions::reconnect_for the ranks outlive a stream: the agent dials again until the
// controller takes it, and tells again what it may have missed. When the controller stays away for
// longer than that, the ranks save and leave. Without, the ranks end with the stream.
//
// One agent a process: it takes every child of the process that it does not know for a stray.
#pragma once

#include <string>

#include "common/clock.h"
#include "common/process.h"
#include "worker/agent/agent_options.h"

namespace am::agent {

// Blocks until the controller is gone for good and every process of ours is. Returns why it is
// gone; empty: it closed the stream in order, or the agent was told to stop. `stop_fd` becomes
// readable (a signalfd) when it is: the first time its ranks are to save and leave, the second time
// they are killed.
std::string RunAgent(const std::string& controller_address, const Clock& clock, Spawner& spawner,
                     AgentOptions options, int stop_fd = -1);

}  // namespace am::agent

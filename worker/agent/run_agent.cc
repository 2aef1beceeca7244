#include "worker/agent/run_agent.h"

#include <optional>
#include <utility>

#include "common/event_loop.h"
#include "worker/agent/controller_link.h"

namespace am::agent {

std::string RunAgent(const std::string& controller_address, const Clock& clock, Spawner& spawner,
                     AgentOptions options) {
  EventLoop loop(clock);
  std::optional<WorkerAgent> agent;
  std::string reason;
  ControllerLink link(
      loop, controller_address,
      {.on_message = [&](const amctl::v1::ControllerMessage& message) { agent->Handle(message); },
       .on_closed =
           [&](const std::string& why) {
             reason = why;
             // Nothing runs that nobody watches.
             agent->Shutdown("the controller is gone", [&] { loop.Stop(); });
           }});
  agent.emplace(loop, spawner, link, std::move(options));
  agent->SayHello();
  loop.Run();
  return reason;
}

}  // namespace am::agent

// ControllerLink: the agent's end of the gRPC stream. Dials once and holds the stream; who wants
// another one after its end makes another link.
//
// Send, Close and Cancel are called on the agent's loop, the callbacks come there too. Messages are
// queued and written in order.
//   ControllerLink link(loop, "unix:/run/user/1000/amctl/….sock",
//                       {.on_open = …, .on_message = …, .on_closed = …});
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "amctl/v1/agent.pb.h"
#include "common/event_loop.h"
#include "worker/agent/outbox.h"

namespace am::agent {

class ControllerLink final : public AgentLink {
 public:
  struct Callbacks {
    std::function<void()> on_open;  // the controller is there: what is sent before may be lost
    std::function<void(const amctl::v1::ControllerMessage&)> on_message;
    std::function<void(const std::string& reason)> on_closed;  // once, by either side
  };

  ControllerLink(EventLoop& loop, const std::string& address, Callbacks callbacks);
  ~ControllerLink() override;  // after on_closed

  void Send(amctl::v1::AgentMessage message) override;
  void Close();   // what is queued is sent first
  void Cancel();  // at once, while it dials too

 private:
  class Stream;
  std::unique_ptr<Stream> stream_;
};

}  // namespace am::agent

// A link that keeps what the agent sends.
#pragma once

#include <functional>
#include <vector>

#include "worker/agent/outbox.h"

namespace am::agent {

class FakeLink final : public AgentLink {
 public:
  void Send(amctl::v1::AgentMessage message) override {
    sent.push_back(message);
    if (on_message) on_message(message);
  }
  std::vector<amctl::v1::AgentMessage> sent;
  std::function<void(const amctl::v1::AgentMessage&)> on_message;
};

}  // namespace am::agent

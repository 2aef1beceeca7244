// Outbox: what the agent has to tell its controller, whether that can be reached or not.
//
// State (a rank has started, is ready, has failed, has ended; nothing is left) is retained by
// attempt until the controller says that the attempt may be forgotten, and told again behind every
// hello. News (steps, heartbeats, warnings) is told once; while nobody listens it is kept within
// bounds, the oldest is dropped first. On the agent's loop.
//   outbox.Connected(link, hello);
//   outbox.TellState({"am-x", 1}, message);
//   outbox.TellNews(message);
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "amctl/v1/agent.pb.h"

namespace am::agent {

// The way to the controller. An interface, because it is an I/O edge.
class AgentLink {
 public:
  virtual ~AgentLink() = default;
  virtual void Send(amctl::v1::AgentMessage message) = 0;
};

using AttemptKey = std::pair<std::string, int64_t>;  // job, attempt

class Outbox {
 public:
  static constexpr size_t kMaxNewsBytes = 4 << 20;

  explicit Outbox(size_t max_news_bytes = kMaxNewsBytes) : max_news_bytes_(max_news_bytes) {}

  // Says hello, with the attempts that are retained filled in, and then all that there is to tell.
  // The link must live until Disconnected.
  void Connected(AgentLink& link, amctl::v1::AgentMessage hello);
  void Disconnected() { link_ = nullptr; }
  bool connected() const { return link_ != nullptr; }

  void Begin(const AttemptKey& attempt);  // is retained from now on
  void Forget(const AttemptKey& attempt) { retained_.erase(attempt); }
  void TellState(const AttemptKey& attempt, amctl::v1::AgentMessage message);
  void TellNews(amctl::v1::AgentMessage message);

 private:
  std::map<AttemptKey, std::vector<amctl::v1::AgentMessage>> retained_;
  std::deque<amctl::v1::AgentMessage> news_;
  size_t news_bytes_ = 0;
  size_t max_news_bytes_;
  AgentLink* link_ = nullptr;
};

}  // namespace am::agent

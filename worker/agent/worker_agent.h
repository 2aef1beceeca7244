// WorkerAgent: what runs on a node. Starts the ranks of attempts, supervises them, relays what they
// say, and verifies that nothing is left of them.
//
// On the agent's loop; talks to the controller through an AgentLink (gRPC: controller_link.h), of
// which it may have none for a while: the ranks go on. Attempts of several jobs run beside each
// other on slots of their own (attempt.h); one whose slots are not free yet waits for them. A later
// attempt of a job takes the place of an earlier one.
//
// When the ranks of an attempt have ended, what they left behind (double forks, sessions of their
// own) is found as our own children, told apart by its marks (stray.h), killed and reaped, until
// there is none.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "amctl/v1/agent.pb.h"
#include "common/event_loop.h"
#include "common/process.h"
#include "worker/agent/agent_options.h"
#include "worker/agent/attempt.h"
#include "worker/agent/outbox.h"

namespace am::agent {

class WorkerAgent {
 public:
  WorkerAgent(EventLoop& loop, Spawner& spawner, AgentOptions options);
  ~WorkerAgent();  // no attempt runs
  WorkerAgent(const WorkerAgent&) = delete;

  // Says hello, and again all that the controller has not said may be forgotten.
  void Connected(AgentLink& link);
  void Disconnected();
  bool connected() const { return outbox_.connected(); }
  void Handle(const amctl::v1::ControllerMessage& message);
  // Asks what runs to save and leave (no grace: kills it), kills it when the grace is over, and
  // calls back when nothing is left. Nothing is started any more. A second call can only hasten it.
  void Shutdown(std::string because, Duration grace, std::function<void()> done);

 private:
  using Attempts = std::map<AttemptKey, std::unique_ptr<Attempt>>;

  amctl::v1::AgentMessage Hello() const;
  void ScheduleHeartbeat();

  void Start(const amctl::v1::StartRanks& order);
  void StartWaiting();
  bool MayStart(const Attempt& attempt) const;
  void Forget(const AttemptKey& key);
  Attempt* Find(const std::string& job, int64_t attempt);
  void KillAll(const std::string& because);

  void Sweep();
  Attempt* OwnerOf(const Stray& stray) const;
  void AfterEmptying();
  bool Idle() const;

  EventLoop& loop_;
  Spawner& spawner_;
  const AgentOptions options_;
  const std::string instance_;
  Outbox outbox_;
  Attempts attempts_;  // the empty ones too, until they are forgotten
  std::optional<EventLoop::TimerId> heartbeat_timer_;
  std::optional<EventLoop::TimerId> sweep_timer_;
  std::optional<EventLoop::TimerId> kill_timer_;  // of Shutdown
  std::set<pid_t> left_alone_;                    // strays of nobody knows whom, reported
  bool leaving_ = false;
  std::function<void()> on_idle_;
};

}  // namespace am::agent

// WorkerAgent: what runs on a node for a job. Starts the ranks of an attempt, supervises them,
// relays what they say, and verifies that nothing is left of them.
//
// On the agent's loop; talks to the controller through an AgentLink (gRPC: controller_link.h). One
// attempt at a time:
//
//   idle ──StartRanks──▶ running ──last rank ended──▶ sweeping ──nothing left──▶ idle
//   (AttemptEmpty)
//
// While it sweeps, what the ranks left behind (double forks, sessions of their own) is found as our
// own children, killed and reaped, until there are none.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "amctl/v1/agent.pb.h"
#include "common/event_loop.h"
#include "common/file.h"
#include "common/process.h"
#include "worker/agent/rank_supervisor.h"

namespace am::agent {

// The way to the controller. An interface, because it is an I/O edge.
class AgentLink {
 public:
  virtual ~AgentLink() = default;
  virtual void Send(amctl::v1::AgentMessage message) = 0;
};

struct AgentOptions {
  std::string state_dir;     // logs go to <state_dir>/jobs/<job>/attempt-<n>/rank-<r>.log
  std::string rank_program;  // am-rank
  std::vector<std::string> environment;               // of the ranks, NAME=value
  int cores = 1;                                      // of this node, to be divided among the ranks
  Duration kill_patience = std::chrono::seconds(10);  // until a process counts as unkillable
};

class WorkerAgent {
 public:
  WorkerAgent(EventLoop& loop, Spawner& spawner, AgentLink& link, AgentOptions options);
  ~WorkerAgent();  // idle
  WorkerAgent(const WorkerAgent&) = delete;

  void SayHello();
  void Handle(const amctl::v1::ControllerMessage& message);
  // Kills what runs, and calls back when it is idle.
  void Shutdown(std::string because, std::function<void()> done);

 private:
  struct Attempt {
    std::string job;
    int64_t number = 0;
    std::string folder;
    std::vector<std::unique_ptr<RankSupervisor>> ranks;
  };

  void Start(const amctl::v1::StartRanks& start);
  absl::Status StartAll(const amctl::v1::StartRanks& start);
  absl::Status WriteSpec(const amctl::v1::StartRanks& start, const std::string& path) const;
  void Kill(const std::string& because);
  void ToRanks(const ControlMessage& message);
  bool IsCurrent(const std::string& job, int64_t attempt) const;

  void OnEvent(const RankSupervisor& rank, const RankEvent& event, std::string_view line);
  void OnExited(const RankSupervisor& rank, const ExitState& exit);
  bool AnyRunning() const;

  void Sweep();
  void BecomeIdle(std::vector<pid_t> unkillable);

  template <typename Body>
  void Stamp(Body* body) const {
    body->set_job(attempt_->job);
    body->set_attempt(attempt_->number);
  }

  EventLoop& loop_;
  Spawner& spawner_;
  AgentLink& link_;
  AgentOptions options_;
  Pipe lifeline_;
  std::unique_ptr<Attempt> attempt_;
  std::optional<TimePoint> sweep_until_;
  std::function<void()> on_idle_;
};

}  // namespace am::agent

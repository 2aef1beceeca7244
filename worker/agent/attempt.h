// Attempt: the ranks of one attempt of a job on this node, from StartRanks until nothing is left.
//
//   waiting ──its slots are free──▶ running ──last rank ended──▶ sweeping ──nothing left──▶ empty
//
// It turns what its ranks say and how they end into messages for the Outbox. When it may start, and
// when nothing is left of it, its owner knows (WorkerAgent): other attempts run beside it. On the
// agent's loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "amctl/v1/agent.pb.h"
#include "common/event_loop.h"
#include "common/file.h"
#include "common/process.h"
#include "worker/agent/agent_options.h"
#include "worker/agent/outbox.h"
#include "worker/agent/rank_supervisor.h"
#include "worker/agent/stray.h"

namespace am::agent {

class Attempt {
 public:
  enum class State { kWaiting, kRunning, kSweeping, kEmpty };

  // `on_ended`, on the loop: the last rank has ended, the sweep may begin.
  Attempt(EventLoop& loop, const AgentOptions& options, Outbox& outbox, amctl::v1::StartRanks order,
          std::function<void()> on_ended);
  ~Attempt();  // no rank runs
  Attempt(const Attempt&) = delete;

  // Tells StartFailed where it could not, and kills what had begun.
  void Start(Spawner& spawner);
  void Refuse(const std::string& why);  // while it waits: it will never start
  void Kill(const std::string& because);
  void ToRanks(const ControlMessage& message);  // while it waits: after its start
  // Nothing is left; these could not be killed.
  void BecomeEmpty(const std::vector<pid_t>& unkillable);

  State state() const { return state_; }
  AttemptKey key() const { return {order_.job(), order_.attempt()}; }
  bool holds_slots() const { return state_ == State::kRunning || state_ == State::kSweeping; }
  bool WantsSlotOf(const Attempt& other) const;
  const AttemptMarks& marks() const { return marks_; }
  std::set<pid_t> RunningRanks() const;

  // Of the sweep, kept here for its owner.
  std::optional<TimePoint> sweep_until;
  bool forgotten = false;  // the controller does not want to hear of it any more

 private:
  absl::Status StartAll(Spawner& spawner);
  absl::Status WriteSpec(const std::string& path) const;
  std::vector<std::string> Environment() const;
  int Threads() const;
  void TellStartFailed(const std::string& why);
  void OnEvent(const RankSupervisor& rank, const RankEvent& event, std::string_view line);
  void OnExited(const RankSupervisor& rank, const ExitState& exit);
  void EndWhenAllHave();

  template <typename Body>
  Body* Stamp(Body* body) const {
    body->set_job(order_.job());
    body->set_attempt(order_.attempt());
    return body;
  }
  void Tell(amctl::v1::AgentMessage message) { outbox_.TellState(key(), std::move(message)); }

  EventLoop& loop_;
  const AgentOptions& options_;
  Outbox& outbox_;
  const amctl::v1::StartRanks order_;
  std::function<void()> on_ended_;
  State state_ = State::kWaiting;
  Pipe lifeline_;
  AttemptMarks marks_;
  std::string folder_;
  std::vector<std::unique_ptr<RankSupervisor>> ranks_;
  std::vector<ControlMessage> missed_;  // while it waited
};

}  // namespace am::agent

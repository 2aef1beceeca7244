// LocalAgent: the am-worker of the controller's own host. Started in a session of its own, so that
// it and its ranks outlive the controller; it dials the controller's socket again when there is a
// new one.
//
// The agent holds a lock on <state>/agent.lock, which it inherits. Whoever can take the lock knows
// that no agent is there and starts one: no two agents, and none missing after a crash of either.
// On the loop.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/event_loop.h"
#include "common/unique_fd.h"

namespace am::controller {

class LocalAgent {
 public:
  struct Options {
    std::string program;                 // am-worker
    std::vector<std::string> arguments;  // after its name
    std::string state_dir;               // agent.lock, agent.log
  };

  LocalAgent(EventLoop& loop, Options options);
  LocalAgent(const LocalAgent&) = delete;

  // Starts an agent unless there is one, and goes on looking after it.
  absl::Status Start();

 private:
  static constexpr Duration kFirstDelay = std::chrono::seconds(1);
  static constexpr Duration kLongestDelay = std::chrono::seconds(30);

  absl::Status StartIfGone();
  absl::Status Spawn(const UniqueFd& lock);
  void LookAfterIt();

  EventLoop& loop_;
  Options options_;
  pid_t pid_ = -1;  // of the one that we started; to be reaped
  Duration delay_ = kFirstDelay;
  TimePoint started_;
};

// AMCTL_WORKER_PROGRAM, else am-worker beside the running program.
absl::StatusOr<std::string> FindWorkerProgram();

}  // namespace am::controller

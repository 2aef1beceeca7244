// RankLink: a rank's line to its supervisor. Events go out, control messages and signals come in as
// flags that the training loop reads at step boundaries; nothing is ever done inside a signal
// handler but setting one.
//
// Started by hand (no AMCTL_EVENT_FD), rank 0 prints its log lines instead and meets the others at
// MASTER_ADDR:MASTER_PORT. Owns one thread: heartbeats each second, control messages, and the
// lifeline, at whose end the process exits at once.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "worker/rank_io/rank_event.h"

namespace am::engine {

struct RankIdentity {
  int rank = 0;
  int local_rank = 0;
  int world_size = 1;
  // From RANK, LOCAL_RANK, WORLD_SIZE; throws am::Error (kUser) for what is no number or out of
  // range.
  static RankIdentity FromEnvironment();
};

class RankLink {
 public:
  RankLink(const RankIdentity& identity, int64_t attempt);
  ~RankLink();
  RankLink(const RankLink&) = delete;

  void Send(RankEventType type, nlohmann::json fields);
  void Warn(const std::string& message);  // rank 0 alone is heard
  // What the heartbeat says this rank is doing ("loading", "step", "checkpoint", "validation").
  void SetActivity(const std::string& activity, int64_t step);

  struct Meeting {
    std::string host;
    int port = 0;
    std::string prefix;
    int listen_fd = -1;
  };
  // Blocks until the supervisor names the meeting point; throws am::Error (kPeerLost) after the
  // timeout.
  Meeting WaitForRendezvous(int64_t timeout_ms);

  bool leave_requested() const;  // save at the step boundary and exit
  bool TakeSaveRequest();        // a save was asked for since the last call

 private:
  void Watch();
  void Handle(const ControlMessage& message);

  RankIdentity identity_;
  int64_t attempt_;
  int event_fd_ = -1, control_fd_ = -1, lifeline_fd_ = -1, wake_fd_ = -1;
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t seq_ = 0;
  std::string activity_ = "starting";
  int64_t step_ = 0;
  std::optional<ControlMessage> rendezvous_;
  std::atomic<bool> leave_{false}, save_{false}, stopping_{false};
  std::thread thread_;
};

}  // namespace am::engine

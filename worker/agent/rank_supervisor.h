// RankSupervisor: one rank process, from its start to its end. Owned by the WorkerAgent, on the
// agent's loop.
//
// It gives the rank what worker/rank_io/README.md lists, captures its output, reads its events, and
// notices its end at once (pidfd). All that a rank said before it ended is reported before its end
// is.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/event_loop.h"
#include "common/line_reader.h"
#include "common/process.h"
#include "common/unique_fd.h"
#include "worker/agent/log_capture.h"
#include "worker/rank_io/rank_event.h"

namespace am::agent {

struct RankProcess {
  int rank = 0;
  int local_rank = 0;
  int world_size = 1;
  std::string program;
  std::string spec_path;
  std::string log_path;
  std::vector<std::string> environment;  // NAME=value
  int lifeline_fd = -1;                  // the read end, of the agent
  int store_fd = -1;                     // of the leading rank, else -1
};

class RankSupervisor {
 public:
  struct Callbacks {
    std::function<void(const RankEvent& event, std::string_view line)> on_event;
    std::function<void(const ExitState& exit)>
        on_exited;  // last; it may not destroy the supervisor
  };

  RankSupervisor(EventLoop& loop, RankProcess process, Callbacks callbacks);
  ~RankSupervisor();  // the process must have ended, or never have started
  RankSupervisor(const RankSupervisor&) = delete;

  absl::Status Start(Spawner& spawner);
  void Send(const ControlMessage& message);
  void Kill(std::string because);

  int rank() const { return process_.rank; }
  int64_t pid() const { return child_.pid; }
  bool running() const { return running_; }
  const std::string& killed_because() const { return killed_because_; }
  const LogCapture& log() const { return log_; }

 private:
  // One pipe out of the rank.
  struct Stream {
    UniqueFd fd;
    EventLoop::WatchId watch = 0;
    std::function<void(std::string_view)> on_bytes;
  };

  void Open(Stream& stream, UniqueFd fd);
  bool ReadOnce(Stream& stream);  // false: nothing there now, or closed
  void Close(Stream& stream);
  void OnEventLine(std::string_view line, size_t cut_bytes);
  void OnExit();

  EventLoop& loop_;
  RankProcess process_;
  Callbacks callbacks_;
  LogCapture log_;
  LineReader event_lines_;
  Stream output_;
  Stream events_;
  UniqueFd control_;
  Child child_;
  EventLoop::WatchId exit_watch_ = 0;
  bool running_ = false;
  bool warned_of_events_ = false;
  std::string killed_because_;
};

}  // namespace am::agent

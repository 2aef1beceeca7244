#include "controller/job/job.h"

#include <tuple>

namespace am::controller {

const char* Name(JobPhase phase) {
  switch (phase) {
    case JobPhase::kPending:
      return "Pending";
    case JobPhase::kStarting:
      return "Starting";
    case JobPhase::kRunning:
      return "Running";
    case JobPhase::kRestarting:
      return "Restarting";
    case JobPhase::kStopping:
      return "Stopping";
    case JobPhase::kSucceeded:
      return "Succeeded";
    case JobPhase::kFailed:
      return "Failed";
    case JobPhase::kCancelled:
      return "Cancelled";
  }
  return "?";
}

const char* Name(FailureKind kind) {
  switch (kind) {
    case FailureKind::kUser:
      return "user";
    case FailureKind::kRank:
      return "rank";
    case FailureKind::kSignal:
      return "signal";
    case FailureKind::kPeerLost:
      return "peer_lost";
    case FailureKind::kNotStarted:
      return "not_started";
    case FailureKind::kAgentLost:
      return "agent_lost";
  }
  return "?";
}

bool Failure::operator==(const Failure& other) const {
  auto fields = [](const Failure& f) {
    return std::tie(f.kind, f.rank, f.exit.code, f.exit.signal, f.exit.core_dumped, f.message,
                    f.last_lines, f.log_path, f.at);
  };
  return fields(*this) == fields(other);
}

bool IsTerminal(JobPhase phase) {
  return phase == JobPhase::kSucceeded || phase == JobPhase::kFailed ||
         phase == JobPhase::kCancelled;
}

bool IsFinished(const Job& job) {
  return IsTerminal(job.status.phase) ||
         (job.status.phase == JobPhase::kPending && job.status.suspended);
}

}  // namespace am::controller

#include "controller/job/job.h"

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

bool IsTerminal(JobPhase phase) {
  return phase == JobPhase::kSucceeded || phase == JobPhase::kFailed ||
         phase == JobPhase::kCancelled;
}

bool IsFinished(const Job& job) {
  return IsTerminal(job.status.phase) ||
         (job.status.phase == JobPhase::kPending && job.status.suspended);
}

}  // namespace am::controller

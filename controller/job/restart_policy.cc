#include "controller/job/restart_policy.h"

#include "absl/strings/str_cat.h"

namespace am::controller {

RestartDecision DecideRestart(const RestartPolicy& policy, const JobStatus& status,
                              const Failure& failure) {
  switch (failure.kind) {
    case FailureKind::kUser:
      return {.why_not = "not retried: it would end the same way"};
    case FailureKind::kNotStarted:
    case FailureKind::kAgentLost:
      if (!policy.other_nodes) return {.why_not = "not retried"};
      break;
    case FailureKind::kRank:
    case FailureKind::kSignal:
    case FailureKind::kPeerLost:
      break;
  }
  if (status.restarts >= policy.max_restarts) {
    return {.why_not = absl::StrCat(
                "no restart is left (restart.max_restarts: ", policy.max_restarts, ")")};
  }
  if (status.attempts_without_progress >= policy.no_progress_limit) {
    return {.why_not = absl::StrCat(status.attempts_without_progress,
                                    " attempts in a row made no progress "
                                    "(restart.no_progress_limit: ",
                                    policy.no_progress_limit, ")")};
  }
  return {.restart = true};
}

}  // namespace am::controller

// Whether a job that lost an attempt gets another one. Pure.
//
// A user error never does. Else the job may restart `max_restarts` times in all, and stops earlier
// when `no_progress_limit` attempts in a row got no further than an attempt before them had been:
// the same step kills it every time.
#pragma once

#include <string>

#include "controller/job/job.h"

namespace am::controller {

struct RestartDecision {
  bool restart = false;
  std::string why_not;  // "user errors are not retried"
};

// `status` counts the attempt that has just failed in attempts_without_progress.
RestartDecision DecideRestart(const RestartPolicy& policy, const JobStatus& status,
                              const Failure& failure);

}  // namespace am::controller

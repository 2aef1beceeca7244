// JobDriver: one job's turn of the loop. Folds observations in, asks the reconciler, carries out
// what it says.
//
// Owned by the controller's loop and used on its thread alone. Its owner calls Turn() again at the
// time that it returns.
//   JobDriver driver(spec, backend, clock, [&](const Announce& news) { ... });
//   driver.Observe(AgentConnected{});
//   driver.RequestStop({.leave_by = clock.Now() + spec.restart.grace, .because = "SIGTERM"});
#pragma once

#include <functional>
#include <optional>

#include "common/clock.h"
#include "controller/backend/backend.h"
#include "controller/job/job.h"
#include "controller/job/observation.h"
#include "controller/job/reconciler.h"

namespace am::controller {

class JobDriver {
 public:
  using AnnounceCallback = std::function<void(const Announce&)>;

  JobDriver(JobSpec spec, Backend& backend, const Clock& clock, AnnounceCallback announce);

  // Goes on with a job that was known before: nothing has been seen of its nodes yet.
  JobDriver(Job job, Backend& backend, const Clock& clock, AnnounceCallback announce);

  // Where a Pending job is to run: nodes that are connected. Its attempt starts at the next turn.
  void Place(Placement placement);
  // False: it was of another attempt, and void.
  bool Observe(const Observation& observation);
  // A second request can only shorten the first one's time, and take its place where it is of a
  // stronger kind.
  void RequestStop(StopRequest request);
  // A suspended job waits for another placement: whoever asked it to leave wants it to go on.
  void Requeue();
  // The last attempt ended without a failure and without having been asked to. How many in a row
  // have made no progress, with it.
  int CountAttempt();
  // Of the time of day, for people: notes when it was placed, or that it has ended.
  void SetTimes(int64_t now_unix_ns);
  // When it wants to be called again, if at all.
  std::optional<TimePoint> Turn();

  const Job& job() const { return job_; }
  const Observed& observed() const { return observed_; }
  bool finished() const { return IsFinished(job_); }

 private:
  void CarryOut(const Action& action);

  Job job_;
  Observed observed_;
  Backend& backend_;
  const Clock& clock_;
  AnnounceCallback announce_;
};

}  // namespace am::controller

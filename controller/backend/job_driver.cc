#include "controller/backend/job_driver.h"

#include <algorithm>
#include <utility>

namespace am::controller {

JobDriver::JobDriver(JobSpec spec, Backend& backend, const Clock& clock, AnnounceCallback announce)
    : job_{.spec = std::move(spec)},
      backend_(backend),
      clock_(clock),
      announce_(std::move(announce)) {}

bool JobDriver::Observe(const Observation& observation) {
  return Apply(observation, clock_.Now(), observed_);
}

void JobDriver::RequestStop(StopRequest request) {
  if (job_.stop) {
    job_.stop->leave_by = std::min(job_.stop->leave_by, request.leave_by);
  } else {
    job_.stop = std::move(request);
  }
}

std::optional<TimePoint> JobDriver::Turn() {
  Decision decision = Reconcile(job_, observed_, clock_.Now());
  if (decision.status.attempt != job_.status.attempt) {
    BeginAttempt(decision.status.attempt, job_.spec.world_size, observed_);
  }
  job_.status = std::move(decision.status);
  for (const Action& action : decision.actions) CarryOut(action);
  return decision.wake_at;
}

void JobDriver::CarryOut(const Action& action) {
  struct Executor {
    JobDriver& driver;
    void operator()(const StartRanks& start) { driver.backend_.Start(driver.job_.spec, start); }
    void operator()(const SendRendezvous& send) {
      driver.backend_.Rendezvous(driver.job_.spec, send);
    }
    void operator()(const LeaveRanks& leave) { driver.backend_.Leave(driver.job_.spec, leave); }
    void operator()(const KillRanks& kill) { driver.backend_.Kill(driver.job_.spec, kill); }
    void operator()(const Announce& news) { driver.announce_(news); }
  };
  std::visit(Executor{*this}, action);
}

}  // namespace am::controller

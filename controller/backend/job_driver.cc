#include "controller/backend/job_driver.h"

#include <algorithm>
#include <utility>

namespace am::controller {

JobDriver::JobDriver(JobSpec spec, Backend& backend, const Clock& clock, AnnounceCallback announce)
    : job_{.spec = std::move(spec)},
      backend_(backend),
      clock_(clock),
      announce_(std::move(announce)) {}

JobDriver::JobDriver(Job job, Backend& backend, const Clock& clock, AnnounceCallback announce)
    : job_(std::move(job)), backend_(backend), clock_(clock), announce_(std::move(announce)) {
  BeginAttempt(job_.status.attempt, job_.spec.world_size, job_.status.placement, observed_);
  observed_.checkpoint = job_.status.checkpoint;
  observed_.step = job_.status.step;
  for (ObservedNode& node : observed_.nodes) {
    node.connected = false;
    node.lost_at = clock_.Now();
  }
  // The address comes again from the leading agent, and whether every node got it is not known.
  job_.status.rendezvous_sent = false;
}

void JobDriver::Place(Placement placement) { job_.status.placement = std::move(placement); }

bool JobDriver::Observe(const Observation& observation) {
  return Apply(observation, clock_.Now(), observed_);
}

void JobDriver::RequestStop(StopRequest request) {
  if (!job_.stop) {
    job_.stop = std::move(request);
    return;
  }
  job_.stop->leave_by = std::min(job_.stop->leave_by, request.leave_by);
  if (request.kind > job_.stop->kind) {
    job_.stop->kind = request.kind;
    job_.stop->because = std::move(request.because);
  }
}

void JobDriver::Requeue() {
  job_.stop.reset();
  job_.status.suspended = false;
  job_.status.saved = false;
}

int JobDriver::CountAttempt() {
  bool progress = observed_.step > job_.status.best_step;
  job_.status.attempts_without_progress = progress ? 0 : job_.status.attempts_without_progress + 1;
  return job_.status.attempts_without_progress;
}

void JobDriver::SetTimes(int64_t now_unix_ns) {
  JobStatus& status = job_.status;
  if (IsTerminal(status.phase)) {
    status.ended_unix_ns = now_unix_ns;
    return;
  }
  status.placed_unix_ns = now_unix_ns;
  if (status.started_unix_ns == 0) status.started_unix_ns = now_unix_ns;
}

std::optional<TimePoint> JobDriver::Turn() {
  Decision decision = Reconcile(job_, observed_, clock_.Now());
  if (decision.status.attempt != job_.status.attempt) {
    BeginAttempt(decision.status.attempt, job_.spec.world_size, decision.status.placement,
                 observed_);
  }
  // The decision has told nodes that came back what they may have missed. One that knew nothing of
  // the attempt either has been told to start, or has nothing left of it.
  for (ObservedNode& node : observed_.nodes) {
    if (!std::exchange(node.came_back, false) || node.knows) continue;
    node.knows = decision.status.phase == JobPhase::kStarting;
    node.empty = !node.knows;
    if (node.knows && &node == &observed_.nodes.front()) {  // it opens another store
      observed_.store_address.clear();
      decision.status.rendezvous_sent = false;
    }
  }
  job_.status = std::move(decision.status);
  job_.status.step = observed_.step;
  job_.status.checkpoint = observed_.checkpoint;
  for (const Action& action : decision.actions) CarryOut(action);
  return decision.wake_at;
}

void JobDriver::CarryOut(const Action& action) {
  struct Executor {
    Backend& backend;
    const JobSpec& spec;
    const Placement& placement;
    const AnnounceCallback& announce;
    void operator()(const StartRanks& start) { backend.Start(spec, placement, start); }
    void operator()(const SendRendezvous& send) { backend.Rendezvous(spec, placement, send); }
    void operator()(const LeaveRanks& leave) { backend.Leave(spec, placement, leave); }
    void operator()(const KillRanks& kill) { backend.Kill(spec, placement, kill); }
    void operator()(const Announce& news) { announce(news); }
  };
  std::visit(Executor{backend_, job_.spec, job_.status.placement, announce_}, action);
}

}  // namespace am::controller

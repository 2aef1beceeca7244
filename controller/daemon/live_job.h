// LiveJob: a job that has not ended, as the daemon keeps it: its driver, the account of its time,
// and what is to be stored and told of every change.
//
// Owned by the Controller and used on the loop alone. Everything goes out through the Outbox.
//   LiveJob job(spec, outbox, clock);
//   job.driver().Observe(observation);
//   LiveJob::Turned turned = job.Turn();
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "controller/backend/job_driver.h"
#include "controller/daemon/outbox.h"
#include "controller/job/goodput.h"
#include "controller/job/job_json.h"

namespace am::controller {

class LiveJob {
 public:
  LiveJob(JobSpec spec, Outbox& outbox, const Clock& clock);
  LiveJob(JobRecord record, Outbox& outbox, const Clock& clock);  // out of the store
  LiveJob(const LiveJob&) = delete;

  struct Turned {
    bool queue_changed = false;  // it waits now, or has left its place, or is about to
    std::optional<Failure> fault;
    // The attempt is over: on which nodes nothing is left of it, and on which there may be.
    int64_t over = 0;
    std::vector<std::string> empty;
    std::vector<std::string> abandoned;
    std::optional<TimePoint> wake_at;
  };
  // Reconciles, books its time, and puts into the outbox what has changed.
  Turned Turn();

  // A line of rank 0, whose observation was folded in already.
  void RankEvent(int64_t attempt, int rank, const std::string& json);

  JobDriver& driver() { return driver_; }
  const Job& job() const { return driver_.job(); }
  const Observed& observed() const { return driver_.observed(); }
  const std::string& id() const { return job().spec.id; }
  bool ended() const { return IsTerminal(job().status.phase); }
  bool waits() const { return job().status.phase == JobPhase::kPending; }
  // After this it may be placed: it comes back from attempts without progress.
  std::optional<TimePoint> not_before() const { return not_before_; }
  // When its time limit and its grace are over; of one that waits, if it started now.
  std::optional<TimePoint> ends_by(TimePoint now) const;
  Goodput goodput() const { return ledger_.At(clock_.Now()); }
  const std::string& last_step_json() const { return last_step_json_; }
  JobRecord Record() const;

 private:
  std::optional<Duration> TimeLeft(TimePoint now) const;
  void KeepTimeLimit(TimePoint now);
  void Requeue(TimePoint now);
  void Account(const JobStatus& before, bool over, TimePoint now);
  void TellChanges(const JobStatus& before);
  void Store();

  Outbox& outbox_;
  const Clock& clock_;
  JobDriver driver_;
  GoodputLedger ledger_;
  std::optional<TimePoint> not_before_;
  std::string last_step_json_;
  bool stored_ = false;
};

}  // namespace am::controller

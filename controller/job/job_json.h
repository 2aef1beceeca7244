// A job as the store keeps it: one JSON document, `"version": 1`, with all that a controller needs
// to go on with it, and of a job that has ended all that is shown of it.
//
// Times of the steady clock mean nothing to another process. They are written as times of day
// (`…_unix_ns`) and turned back when they are read: both by the two clocks read at the same moment
// (Clocks), so a deadline stays where it is on the wall clock, whatever happens in between. Where
// the time of day is set while no controller runs, deadlines move with it.
//
// Fields that a reader does not know are ignored and those that it misses have their defaults, so
// that fields can be added within a version. Bytes that are no UTF-8 (last lines of a log) are
// replaced by U+FFFD.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "controller/job/goodput.h"
#include "controller/job/job.h"
#include "controller/job/observation.h"

namespace am::controller {

// Both clocks, read together.
struct Clocks {
  TimePoint now;
  int64_t unix_ns = 0;

  static Clocks Read(const Clock& clock) { return {clock.Now(), clock.UnixNanos()}; }
  int64_t ToUnix(TimePoint time) const { return unix_ns + (time - now).count(); }
  TimePoint FromUnix(int64_t time) const { return now + Duration(time - unix_ns); }
};

struct JobRecord {
  Job job;
  GoodputLedger::State goodput;
  std::string last_step_json;       // the last `step` event of rank 0
  std::vector<ObservedRank> ranks;  // of the last attempt, once the job has ended
};

std::string ToJson(const JobRecord& record, const Clocks& clocks);
// DataLoss says what is wrong; FailedPrecondition for a document of a later version.
absl::StatusOr<JobRecord> JobRecordFromJson(std::string_view json, const Clocks& clocks);

}  // namespace am::controller

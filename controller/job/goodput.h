// Goodput: every second of a job's life belongs to one of six; together they are the wall time.
// Pure: a ledger that is told what the job does, when.
//
//   lost work: steps after the last checkpoint that an attempt's end threw away. They were booked
//   as productive when they were done, and are moved when they turn out lost.
#pragma once

#include <cstdint>

#include "common/clock.h"

namespace am::controller {

struct Goodput {
  Duration queued{};
  Duration starting{};    // of the first attempt, until all ranks are ready
  Duration productive{};
  Duration checkpoint{};  // the ranks wait for one
  Duration lost_work{};
  Duration recovery{};    // from a fault until the ranks are ready again
  Duration total() const {
    return queued + starting + productive + checkpoint + lost_work + recovery;
  }
};

class GoodputLedger {
 public:
  enum class Doing { kQueued, kStarting, kProductive, kCheckpoint, kRecovery, kNothing };

  GoodputLedger() = default;
  GoodputLedger(Goodput so_far, Doing doing, TimePoint since);

  // From now on the job does this.
  void Begin(Doing doing, TimePoint now);
  // A checkpoint is complete: what was productive until it began cannot be lost any more.
  void Saved(TimePoint now);
  // The attempt has ended without one since: its productive time after the last checkpoint was
  // lost.
  void LoseWork(TimePoint now);

  Goodput At(TimePoint now) const;  // with what is under way
  Doing doing() const { return doing_; }

 private:
  void Book(TimePoint now);

  Goodput booked_;
  Duration at_risk_{};  // productive since the last checkpoint
  Doing doing_ = Doing::kNothing;
  TimePoint since_;
};

}  // namespace am::controller

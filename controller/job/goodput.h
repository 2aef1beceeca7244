// Goodput: every second of a job's life belongs to one of six; together they are the wall time.
// Pure: a ledger that is told what the job does, when.
//
//   lost work: steps after the last checkpoint that an attempt's end threw away. They were booked
//   as productive when they were done, and are moved when they turn out lost.
//
//   GoodputLedger ledger;
//   ledger.Begin(Doing::kQueued, now); … ledger.Begin(Doing::kProductive, now); ledger.Saved(now);
#pragma once

#include "common/clock.h"

namespace am::controller {

struct Goodput {
  Duration queued{};
  Duration starting{};  // of the first attempt, until all ranks are ready
  Duration productive{};
  Duration checkpoint{};  // the ranks wait for one
  Duration lost_work{};
  Duration recovery{};  // from a fault until the ranks are ready again
  Duration total() const {
    return queued + starting + productive + checkpoint + lost_work + recovery;
  }
  bool operator==(const Goodput&) const = default;
};

class GoodputLedger {
 public:
  enum class Doing { kQueued, kStarting, kProductive, kCheckpoint, kRecovery, kNothing };

  // All that there is to it: for the store, which keeps `since` as a time of day.
  struct State {
    Goodput booked;
    Duration at_risk{};  // productive since the last checkpoint
    Doing doing = Doing::kNothing;
    TimePoint since;
    bool operator==(const State&) const = default;
  };

  GoodputLedger() = default;
  explicit GoodputLedger(const State& state) : state_(state) {}

  // From now on the job does this.
  void Begin(Doing doing, TimePoint now);
  // A checkpoint is complete: what was productive until now cannot be lost any more.
  void Saved(TimePoint now);
  // The attempt has ended without one since: its productive time after the last checkpoint was
  // lost.
  void LoseWork(TimePoint now);

  Goodput At(TimePoint now) const;  // with what is under way
  Doing doing() const { return state_.doing; }
  const State& state() const { return state_; }

 private:
  void Book(TimePoint now);

  State state_;
};

}  // namespace am::controller

#include "controller/job/goodput.h"

namespace am::controller {

void GoodputLedger::Begin(Doing doing, TimePoint now) {
  Book(now);
  state_.doing = doing;
}

void GoodputLedger::Saved(TimePoint now) {
  Book(now);
  state_.at_risk = Duration::zero();
}

void GoodputLedger::LoseWork(TimePoint now) {
  Book(now);
  state_.booked.productive -= state_.at_risk;
  state_.booked.lost_work += state_.at_risk;
  state_.at_risk = Duration::zero();
}

Goodput GoodputLedger::At(TimePoint now) const {
  GoodputLedger until_now = *this;
  until_now.Book(now);
  return until_now.state_.booked;
}

// What is under way goes where it belongs. A `now` before `since` (the time of day was set back
// while the ledger was in the store) books nothing.
void GoodputLedger::Book(TimePoint now) {
  Duration passed = now > state_.since ? now - state_.since : Duration::zero();
  state_.since = now;
  switch (state_.doing) {
    case Doing::kQueued:
      state_.booked.queued += passed;
      break;
    case Doing::kStarting:
      state_.booked.starting += passed;
      break;
    case Doing::kProductive:
      state_.booked.productive += passed;
      state_.at_risk += passed;
      break;
    case Doing::kCheckpoint:
      state_.booked.checkpoint += passed;
      break;
    case Doing::kRecovery:
      state_.booked.recovery += passed;
      break;
    case Doing::kNothing:
      break;
  }
}

}  // namespace am::controller

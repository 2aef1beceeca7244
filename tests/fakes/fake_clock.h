// A clock that stands still until a test moves it.
#pragma once

#include "common/clock.h"

namespace am {

class FakeClock final : public Clock {
 public:
  TimePoint Now() const override { return now_; }
  int64_t UnixNanos() const override { return now_.time_since_epoch().count(); }
  void Advance(Duration by) { now_ += by; }

 private:
  TimePoint now_{std::chrono::hours(1)};
};

}  // namespace am

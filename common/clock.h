// Time as an argument: whoever needs the time holds a Clock&, decisions get `now` handed in. Tests
// move a FakeClock (tests/fakes/fake_clock.h). Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>

namespace am {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint Now() const = 0;      // monotonic: for deadlines and durations
  virtual int64_t UnixNanos() const = 0;  // for people and files
};

class SystemClock final : public Clock {
 public:
  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
  int64_t UnixNanos() const override {
    return std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch())
        .count();
  }
};

inline double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

}  // namespace am

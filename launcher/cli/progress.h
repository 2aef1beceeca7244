// What a person sees of a running job: one live line, and how long it will take. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "worker/rank_io/rank_event.h"

namespace am::cli {

class Progress {
 public:
  explicit Progress(int64_t total_steps = 0) : total_steps_(total_steps) {}

  void Update(const RankEvent& event);

  // "step 12/100 | loss 1.2345 | 6924 tokens/s | 0:42 left", cut to `width` columns; empty before
  // anything is known.
  std::string LiveLine(int width) const;

  int64_t step() const { return step_; }

 private:
  int64_t total_steps_;  // 0: not known
  int64_t step_ = 0;
  double loss_ = 0;
  double tokens_per_s_ = 0;
  double step_s_ = 0;  // moving average
  bool stepped_ = false;
  std::string activity_;
};

// "0:42", "12:05", "3:07:09"
std::string FormatTime(double seconds);

// A line of a rank's log as a terminal can show it: what followed the last `\r`, control characters
// and bytes that are not UTF-8 replaced, at most `max_bytes` of it.
std::string ForDisplay(std::string_view bytes, size_t max_bytes = 400);

}  // namespace am::cli

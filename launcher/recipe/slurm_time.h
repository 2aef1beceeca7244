// Slurm's time limits: the six documented forms, and the words for no limit at all. What cannot be
// read is nothing, never "unlimited".
//   minutes   minutes:seconds   hours:minutes:seconds
//   days-hours   days-hours:minutes   days-hours:minutes:seconds
//   0, infinite, unlimited, -1: no limit
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace am::recipe {

struct SlurmTime {
  std::optional<int64_t> seconds;  // nothing: no limit

  friend bool operator==(const SlurmTime&, const SlurmTime&) = default;
};

std::optional<SlurmTime> ParseSlurmTime(std::string_view text);

// As sbatch takes it: "04:00:00", "2-12:00:00", "UNLIMITED".
std::string ToString(const SlurmTime& time);

// For people: "2 d 12 h", "1 h 30 min", "no limit".
std::string ToWords(const SlurmTime& time);

// What was probably meant by a text that cannot be read: "90m" is 90 minutes. Empty: nothing near.
std::string SlurmTimeHint(std::string_view text);

}  // namespace am::recipe

// Words for divisibility: what divides what, and the nearest numbers that would.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace am::plan {

// "1, 2 or 4"; at most `most` of them, the last one kept.
std::string OrList(const std::vector<int64_t>& values, size_t most = 8);

std::vector<int64_t> DivisorsOf(int64_t value);

// The multiples of `unit` next to `value`, below and above, without 0.
std::vector<int64_t> NearestMultiples(int64_t value, int64_t unit);

}  // namespace am::plan

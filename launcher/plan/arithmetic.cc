#include "launcher/plan/arithmetic.h"

#include <algorithm>

namespace am::plan {

std::string OrList(const std::vector<int64_t>& values, size_t most) {
  std::vector<int64_t> shown = values;
  if (shown.size() > most)
    shown.erase(shown.begin() + static_cast<long>(most) - 1, shown.end() - 1);
  std::string list;
  for (size_t i = 0; i < shown.size(); ++i) {
    if (i > 0) list += i + 1 == shown.size() ? " or " : ", ";
    list += std::to_string(shown[i]);
  }
  return list;
}

std::vector<int64_t> DivisorsOf(int64_t value) {
  std::vector<int64_t> low, high;
  for (int64_t d = 1; d * d <= value; ++d) {
    if (value % d != 0) continue;
    low.push_back(d);
    if (d != value / d) high.push_back(value / d);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

std::vector<int64_t> NearestMultiples(int64_t value, int64_t unit) {
  int64_t below = value / unit * unit;
  std::vector<int64_t> nearest;
  if (below > 0) nearest.push_back(below);
  nearest.push_back(below + unit);
  return nearest;
}

}  // namespace am::plan

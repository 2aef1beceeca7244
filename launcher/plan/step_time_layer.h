// What one micro-batch spends in one layer, on one rank: forward, recomputation and backward.
//
// Counted from the layer's weights, attention and scan. Products take the longer of arithmetic and
// memory traffic; everything else is memory traffic, or bytes on a link.
#pragma once

#include <array>
#include <string_view>

#include "launcher/plan/step_time_rates.h"
#include "launcher/plan/workload.h"

namespace am::plan {

enum class Cost {
  kProducts,
  kExpertProducts,
  kQuantize,
  kAttention,
  kScan,
  kElementwise,
  kExpertTraffic,
  kAdapters,
  kAllToAll,
  kExpertGaps,
  kTensorParallel,
  kContextParallel,
  kCount,
};
std::string_view NameOf(Cost cost);

// Seconds, and the work they are for: FLOP or bytes (passes for the gaps).
struct Spent {
  double seconds = 0;
  double work = 0;
};

struct LayerTime {
  std::array<Spent, static_cast<size_t>(Cost::kCount)> costs;

  Spent& operator[](Cost cost) { return costs[static_cast<size_t>(cost)]; }
  const Spent& operator[](Cost cost) const { return costs[static_cast<size_t>(cost)]; }
  double seconds() const;
  void Add(const LayerTime& other, double times);
};

// `tokens`: of a micro-batch on a rank, after the sequence was cut over cp.
LayerTime TimeOfLayer(const model::Layer& layer, const Workload& workload, double tokens,
                      const Rates& rates, const Calibration& calibration);

}  // namespace am::plan

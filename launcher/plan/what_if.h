// WhatIf: the same recipe with another number of nodes, other GPUs or another sequence length:
// whether it fits, how fast it runs and what it costs, a row each.
//   absl::StatusOr<WhatIf> question = ParseWhatIf("nodes=2,4,8");
//   std::vector<Outcome> outcomes = Ask(recipe, cluster, options, {*question}, FindByName);
// Several questions are asked in all combinations.
#pragma once

#include <absl/status/statusor.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/plan/plan.h"

namespace am::plan {

struct WhatIf {
  enum class What { kNodes, kGpu, kSeq };
  What what = What::kNodes;
  std::vector<std::string> values;  // counts, or names of clusters
};

// "nodes=2,4,8", "gpu=dgx-h200,gb200-nvl72", "seq=4096,8192".
absl::StatusOr<WhatIf> ParseWhatIf(std::string_view text);

struct Outcome {
  std::string what;  // "nodes 4", "gpu dgx-h200, seq 8192"; "as it is" for the first
  PlanResult result;
};

using ClusterFinder = std::function<absl::StatusOr<Cluster>(const std::string& name)>;

// The first is the recipe as it is. Another GPU keeps the number of GPUs, unless nodes are asked
// for, too.
absl::StatusOr<std::vector<Outcome>> Ask(const recipe::Recipe& recipe, const Cluster& cluster,
                                         const PlanOptions& options,
                                         const std::vector<WhatIf>& questions,
                                         const ClusterFinder& find);

std::string ToText(const std::vector<Outcome>& outcomes);
nlohmann::json ToJson(const std::vector<Outcome>& outcomes);

}  // namespace am::plan

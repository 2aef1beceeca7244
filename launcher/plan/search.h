// SearchLayouts: the fastest layout of a recipe on a cluster that fits its memory, with the
// runners-up and why each loses. The global batch stays as it is, so the loss curve does, too.
//
//   SearchResult found = SearchLayouts(recipe, cluster, {.nodes = 32, .model = config});
//   found.best->overrides;   // {"--distributed.tp_size=2", …}, to be pasted
//
// Tried are tp, cp, pp with virtual stages, ep, dp_replicate, the local batch and recomputation.
// What is legal is decided by the rules of the plan itself (parallel_dims.h, batch.h, rules.h), on
// the recipe with those values laid over. Shapes (tp, cp, pp, ep) that do not fit with the least
// memory are dropped whole; of the others the rest is chosen one after another. The best are then
// planned as any recipe is, and ranked by that. Pure and deterministic.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/plan.h"

namespace am::plan {

struct LayoutChoice {
  std::string strategy;  // "fsdp2"
  int tp = 1, cp = 1, pp = 1, ep = 1, dp_replicate = 1;
  int virtual_stages = 1;  // a rank; 1 is the schedule 1f1b
  int64_t local_batch_size = 1;
  int64_t micro_batch_size = 1;  // of the pipeline
  Recompute recompute = Recompute::kNone;
  bool operator==(const LayoutChoice&) const = default;
};

struct Proposal {
  LayoutChoice choice;
  std::vector<std::string> overrides;  // what it changes of the recipe
  double step_time_s = 0;
  double tokens_per_s = 0;
  double memory_gib = 0;
  double limit_gib = 0;  // 0: not known
  bool fits = false;
  std::string verdict;  // "fastest", "3.1 % slower", "12.4 GiB too much"
};

struct SearchResult {
  std::optional<Proposal> own;   // the recipe's layout, where it is legal
  std::optional<Proposal> best;  // nothing where no layout fits, or nothing can be estimated
  std::vector<Proposal> others;  // runners-up, then those that do not fit, the nearest first
  int64_t tried = 0;
  int64_t legal = 0;
  int64_t fitting = 0;
  std::string note;  // why there is no proposal, or what was left out
};

SearchResult SearchLayouts(const recipe::Recipe& recipe, const Cluster& cluster,
                           const PlanOptions& options);

// The recipe with a choice laid over.
recipe::Recipe WithChoice(const recipe::Recipe& recipe, const LayoutChoice& choice,
                          int64_t global_batch_size, int64_t layers);

// The axes that Place describes, by arithmetic alone, on domains that are all alike.
std::vector<PlannedAxis> AxesOf(const ParallelDims& dims, const Cluster& cluster,
                                int ranks_per_node);

std::string ToText(const SearchResult& found);
nlohmann::json ToJson(const SearchResult& found);

}  // namespace am::plan

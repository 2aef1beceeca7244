// SearchLayouts: the fastest layout of a recipe on a cluster that fits its memory, with the
// runners-up and why each loses. The global batch stays as it is, so the loss curve does, too.
//
//   SearchResult found = SearchLayouts(recipe, cluster, {.nodes = 32, .model = config});
//   found.best->overrides;   // {"--distributed.tp_size=2", …}, to be pasted
//
// Tried are tp, cp, pp with virtual stages, ep, dp_replicate, the local batch and recomputation
// (search_candidates.h). Each is judged by the rules of the plan itself (search_judge.h). Shapes
// (tp, cp, pp, ep) that do not fit with the least memory are dropped whole; of the others the rest
// is chosen one after another. The best are then planned as any recipe is, and ranked by that
// (search_rank.h). Pure and deterministic.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/plan.h"
#include "launcher/plan/search_choice.h"

namespace am::plan {

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

std::string ToText(const SearchResult& found);
nlohmann::json ToJson(const SearchResult& found);

}  // namespace am::plan

// LayoutJudge: whether a layout is legal, how much memory it takes and how long a step. What is
// legal is decided by the rules of the plan itself (parallel_dims.h, batch.h, rules.h), on the
// recipe with the layout laid over. Pure; some microseconds a layout.
//   LayoutJudge judge(problem);
//   std::optional<JudgedLayout> judged = judge.Judge(choice);  // nothing where it is not legal
#pragma once

#include <optional>
#include <vector>

#include "launcher/plan/search_problem.h"

namespace am::plan {

struct JudgedLayout {
  LayoutChoice choice;
  double time = 0;    // s a step
  double memory = 0;  // GiB
  double over = 0;    // GiB beyond the limit

  bool fits() const { return over == 0; }
};

class LayoutJudge {
 public:
  explicit LayoutJudge(const SearchProblem& problem);

  std::optional<JudgedLayout> Judge(const LayoutChoice& choice) const;

 private:
  std::optional<Layout> LegalLayout(const LayoutChoice& choice) const;

  const SearchProblem& problem_;
  const recipe::Recipe reduced_;  // only the sections that the rules of the plan read
};

// The axes that Place describes, by arithmetic alone, on domains that are all alike.
std::vector<PlannedAxis> AxesOf(const ParallelDims& dims, const Cluster& cluster,
                                int ranks_per_node);

}  // namespace am::plan

// The layouts that a search tries, pruned by what can be told without judging one. In rounds: the
// shapes (tp, cp, pp, ep) with what takes the least memory; then, of a shape that fits, batch and
// recomputation, virtual stages and replication, each round from the best of those before. Pure.
//   for (const LayoutChoice& choice : ShapeChoices(problem)) …
#pragma once

#include <vector>

#include "launcher/plan/search_problem.h"

namespace am::plan {

std::vector<LayoutChoice> ShapeChoices(const SearchProblem& problem);

// Of a shape: local batches, micro batches, recomputation.
std::vector<LayoutChoice> BatchChoices(const SearchProblem& problem, const LayoutChoice& shape);
// Of a pipeline: virtual stages.
std::vector<LayoutChoice> StageChoices(const SearchProblem& problem, const LayoutChoice& best);
// Of sharding: replicas of it.
std::vector<LayoutChoice> ReplicaChoices(const SearchProblem& problem, const LayoutChoice& best);

}  // namespace am::plan

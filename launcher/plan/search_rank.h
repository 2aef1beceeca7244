// RankLayouts: the last step of a search. The quickest layouts that fit are planned as any recipe
// is and ranked by that; each of the others is told why it loses. Pure.
#pragma once

#include <vector>

#include "launcher/plan/search.h"
#include "launcher/plan/search_judge.h"

namespace am::plan {

// A plan as a proposal, without a verdict; its estimates are known.
Proposal ProposalOf(const Plan& plan);

// Fills in the best, the others, the verdicts and the note; `result.own` and its counts are there.
void RankLayouts(const SearchProblem& problem, std::vector<JudgedLayout> hits,
                 std::vector<JudgedLayout> misses, SearchResult& result);

}  // namespace am::plan

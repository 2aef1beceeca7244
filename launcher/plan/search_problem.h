// SearchProblem: what all layouts that a search tries have in common. Posed by search.cc; the
// candidates (search_candidates.h), their judge (search_judge.h) and the ranking (search_rank.h)
// read it.
#pragma once

#include <cstdint>
#include <memory>

#include "launcher/plan/make_workload.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/search_choice.h"

namespace am::plan {

struct SearchProblem {
  const recipe::Recipe& recipe;
  const Cluster& cluster;
  const PlanOptions& options;  // the model is known
  std::shared_ptr<const model::ModelShape> shape = nullptr;
  Training training = {};
  LayoutChoice own = {};  // the recipe's, where it is legal
  int64_t layers = 0;
  int64_t global_batch_size = 0;
  int64_t seq_length = 0;
  int ranks_per_node = 1;
  int world = 1;
};

}  // namespace am::plan

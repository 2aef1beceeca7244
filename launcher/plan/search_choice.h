// LayoutChoice: one layout that a search tries, the recipe with it laid over, and the options that
// say it on a command line. Pure.
//   recipe::Recipe tried = WithChoice(recipe, choice, global_batch_size, layers);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "launcher/plan/workload.h"
#include "launcher/recipe/recipe.h"

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

// The recipe with a choice laid over.
recipe::Recipe WithChoice(const recipe::Recipe& recipe, const LayoutChoice& choice,
                          int64_t global_batch_size, int64_t layers);

// What a choice changes of the recipe, as options: {"--distributed.tp_size=2", …}.
std::vector<std::string> OverridesOf(const recipe::Recipe& recipe, const LayoutChoice& choice,
                                     int64_t global_batch_size, int64_t layers);

}  // namespace am::plan

// The whole run: how many steps it takes, and what they cost in days and money. Of data sets only
// the sizes are known here, none is read; what cannot be known is said, with what would tell.
//   RunLength length = LengthOfRun(recipe, plan.batch);
//   RunCost cost = CostOfRun(length, step_time_s, gpus, node);
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "launcher/plan/batch.h"
#include "launcher/plan/cluster.h"
#include "launcher/recipe/recipe.h"

namespace am::plan {

struct RunLength {
  std::optional<int64_t> steps;  // nothing where it cannot be known
  std::string reason;            // the arithmetic, or what is missing and what would tell
};

RunLength LengthOfRun(const recipe::Recipe& recipe, const Batch& batch);

// Training samples of the recipe's data set: what the recipe says, or of a data set whose size is
// public; limits and slices (`train[:1000]`) applied.
std::optional<int64_t> SamplesOf(const recipe::Recipe& recipe);

struct RunCost {
  std::optional<double> days;
  std::optional<double> gpu_hours;
  std::optional<double> price;  // in the currency of the cluster file
  std::string reason;
};

RunCost CostOfRun(const RunLength& length, std::optional<double> step_time_s, int gpus,
                  const NodeShape& node);

}  // namespace am::plan

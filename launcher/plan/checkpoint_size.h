// How much disk a job's checkpoints take: asked before anything is started, since a full disk shows
// itself at the first save else, hours later.
//   CheckpointSize size = SizeOfCheckpoint(workload);
//   CheckDisk(recipe, size, free_bytes, diagnostics);
#pragma once

#include <optional>

#include "launcher/model/config.h"
#include "launcher/plan/workload.h"
#include "launcher/recipe/recipe.h"

namespace am::plan {

struct CheckpointSize {
  double weights =
      0;  // bytes: what is trained, as it is stored; an adapter alone where there is one
  double states = 0;    // of the optimizer: master weights and moments
  double exported = 0;  // the consolidated model beside the shards; none of an adapter
  double Sum() const { return weights + states + exported; }
};

CheckpointSize SizeOfCheckpoint(const Workload& workload, const recipe::Recipe& recipe);
// Nothing where the model's weights are not known.
std::optional<CheckpointSize> SizeOfCheckpoint(const recipe::Recipe& recipe,
                                               const model::ModelConfig& model);

// An error where not even one fits, a warning where not all that are kept do, with one more that is
// being written while the oldest is still there.
void CheckDisk(const recipe::Recipe& recipe, const CheckpointSize& size, double free_bytes,
               recipe::Diagnostics& out);

}  // namespace am::plan

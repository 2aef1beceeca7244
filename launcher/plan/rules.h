// Rules between a layout, a batch and a model: what can be laid out at all. Each refusal has its
// arithmetic and its cure.
#pragma once

#include <optional>

#include "launcher/model/config.h"
#include "launcher/plan/batch.h"
#include "launcher/plan/parallel_dims.h"
#include "launcher/recipe/recipe.h"

namespace am::plan {

// Heads that tp cannot divide; experts without a mixture of experts.
void CheckModel(const recipe::Recipe& recipe, const model::ModelConfig& model,
                recipe::Diagnostics& out);

// The layout of a recipe on so many ranks, with its batch and its pipeline. What the recipe says
// of it and could not be read is not judged.
void CheckLayout(const recipe::Recipe& recipe, int world_size,
                 const std::optional<model::ModelConfig>& model, recipe::Diagnostics& out);

struct PipelineStages {
  int virtual_stages = 1;  // a rank
  int64_t micro_batch_size = 1;
  int64_t micro_batches = 1;  // a local batch
};

// How the pipeline is cut. Nothing without a pipeline, or with an error in `out`.
std::optional<PipelineStages> CutPipeline(const recipe::Recipe& recipe, const ParallelDims& dims,
                                          const Batch& batch,
                                          const std::optional<model::ModelConfig>& model,
                                          recipe::Diagnostics& out);

}  // namespace am::plan

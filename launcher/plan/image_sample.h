// What a sample of a recipe that trains an image model is: the tokens of a picture and of its text,
// read from a cache, since the encoders of both run before training.
//   std::optional<int64_t> length = ImageSequenceLength(recipe, config.json, reason);
//   shape = DenoiserOf(*shape);  // what a step runs of the model
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "launcher/model/shape.h"
#include "launcher/recipe/recipe.h"

namespace am::plan {

// Reads cached pictures or videos: recipes with data.dataloader.
bool TrainsOnCache(const recipe::Recipe& recipe);

// Tokens of a picture at data.dataloader.base_resolution, as the model's config.json counts them,
// and of the longest text. Nothing for videos and pictures that are edited, whose frames and
// sources no recipe counts, or where the resolution or the model's count is not known.
std::optional<int64_t> ImageSequenceLength(const recipe::Recipe& recipe,
                                           const nlohmann::json& config, std::string& reason);

// The model as it denoises a picture: each token attends to all others, and the output projection
// to a vocabulary is held, not run.
std::shared_ptr<const model::ModelShape> DenoiserOf(const model::ModelShape& shape);

}  // namespace am::plan

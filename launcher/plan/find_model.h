// FindModelOf: the configuration of the model that a recipe names, with what the recipe lays over
// it; from a directory, the Hugging Face cache or the known facts (launcher/model/known.h). Its
// absence is no fault of the recipe: a plan then says what it could not know.
#pragma once

#include <optional>

#include "launcher/model/known.h"
#include "launcher/recipe/recipe.h"

namespace am::plan {

std::optional<model::FoundConfig> FindModelOf(const recipe::Recipe& recipe,
                                              const model::Environment& environment);

}  // namespace am::plan

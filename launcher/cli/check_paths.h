// What a recipe names outside itself, for `amctl validate --check-paths`: models, data, files and
// directories have to be there, output directories writable. The schema says which keys name what
// (recipe::Names); reads directories, opens nothing.
#pragma once

#include <string>

#include "launcher/recipe/diagnostic.h"
#include "launcher/recipe/environment.h"
#include "launcher/recipe/recipe.h"

namespace am::cli {

// The directory itself or the nearest above it that is there.
std::string NearestThere(const std::string& path);

recipe::Diagnostics CheckPaths(const recipe::Recipe& recipe,
                               const recipe::Environment& environment);

}  // namespace am::cli

// What a recipe names outside itself, for `amctl validate --check-paths`: models, data, files and
// directories have to be there, output directories writable. The schema says which keys name what
// (recipe::Names); reads directories, opens nothing.
#pragma once

#include "launcher/recipe/diagnostic.h"
#include "launcher/recipe/environment.h"
#include "launcher/recipe/recipe.h"

namespace am::cli {

recipe::Diagnostics CheckPaths(const recipe::Recipe& recipe,
                               const recipe::Environment& environment);

}  // namespace am::cli

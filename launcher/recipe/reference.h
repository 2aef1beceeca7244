// The recipe reference, printed from the schema: docs/recipe_reference.md. A test fails when the
// file is not what this prints.
#pragma once

#include <string>

namespace am::recipe {

std::string RecipeReference();

}  // namespace am::recipe

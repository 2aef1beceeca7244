// Rules between the keys of a recipe that need no cluster: what is missing, what contradicts what.
// Keys that were refused already are not judged, so that one mistake is named once.
#pragma once

#include "launcher/recipe/diagnostic.h"
#include "launcher/recipe/recipe.h"

namespace am::recipe {

struct RuleOptions {
  bool whole = true;      // all of the file was read: what is absent is missing
  bool trainable = true;  // the kind of recipe is one whose parts are not implied
};

void CheckRules(const Recipe& recipe, const RuleOptions& options, Diagnostics& out);

}  // namespace am::recipe

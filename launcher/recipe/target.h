// target: the `_target_` of a section and the part that it names, or was probably meant to name.
// Asked by bind.h on its way through the maps, and by load.h for the recipe's kind. Pure.
//   if (!FindPart(section, target)) out.push_back(RefusedTarget(section, node,
//   "optimizer._target_"));
#pragma once

#include <string>
#include <string_view>

#include "launcher/recipe/diagnostic.h"
#include "launcher/recipe/document.h"
#include "launcher/recipe/schema.h"

namespace am::recipe {

// The `_target_` of a map, misspelt or not: the keys beside it are those of its part. Null where
// there is none.
const NodeEntry* TargetOf(const Section& section, const Node& node);

// The known target that one was probably meant to be, and its part; nothing where none is near.
std::string NearestTarget(const Section& section, std::string_view wanted);
const Part* NearestPart(const Section& section, std::string_view wanted);

// The part, of those that can be trained, that has a key which another of the section lacks.
const Part* PartWith(const Section& section, std::string_view key);

// What to say of a target that names no part.
Diagnostic RefusedTarget(const Section& section, const Node& node, const std::string& path);

}  // namespace am::recipe

// support: whether a value asks for more than is done with its key. Asked by bind.h of each key
// that is ignored or not trained here. Pure.
#pragma once

#include "launcher/recipe/schema.h"
#include "launcher/recipe/value.h"

namespace am::recipe {

// A section whose own switch is off: what stands in it asks for nothing.
bool IsSwitchedOff(const Key& key, const Value& value);

// A value that asks for nothing: empty, the default, or one that the key calls neutral.
bool IsNeutral(const Key& key, const Value& value);

}  // namespace am::recipe

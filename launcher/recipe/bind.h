// bind: nodes of text become typed values, by the schema: the environment is expanded, types,
// ranges and choices are checked, unknown keys are refused with the nearest known one. What is
// understood and not done here is said once a key.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/recipe/diagnostic.h"
#include "launcher/recipe/document.h"
#include "launcher/recipe/environment.h"
#include "launcher/recipe/schema.h"
#include "launcher/recipe/value.h"

namespace am::recipe {

struct BindOptions {
  const Environment& environment;
  Severity unset_variable = Severity::kWarning;
  // A section whose part is not named is open: so in recipes of a kind that is not trained here,
  // whose parts are implied.
  bool implied_parts = false;
};

struct Binding {
  Value value;
  Diagnostics diagnostics;
  // Of keys with Support::kIgnored and kNotTrainable; the caller gives them their severity.
  Diagnostics ignored;
  Diagnostics not_trainable;
  // Sections whose keys stand elsewhere; "" for the top of the recipe.
  std::vector<std::string> misplaced;
};

// `path` is the dotted name of the section, empty for a whole file.
Binding Bind(const Section& section, const Node& node, const std::string& path,
             const BindOptions& options);

// The known target that one was probably meant to be, and its part; nothing where none is near.
std::string NearestTarget(const Section& section, std::string_view wanted);
const Part* NearestPart(const Section& section, std::string_view wanted);

}  // namespace am::recipe

// Override: a value of the recipe given on the command line. The CLI hands its leftover arguments
// to ParseOverrides, the loader lays them over the file before anything is typed, so they are
// validated, saved and compared like the file.
//   --distributed.tp_size=2   --distributed.tp_size 2   distributed.tp_size=2 --checkpoint.enabled
//   (true)
//   --dataset.columns.0=text (element of a list; its size appends)   --peft=null   --peft-
//   (deletes)
#pragma once

#include <absl/status/statusor.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/recipe/diagnostic.h"
#include "launcher/recipe/document.h"

namespace am::recipe {

struct Override {
  std::string key;      // dotted
  std::string value;    // YAML: a scalar, or a flow list or map
  bool remove = false;  // `--a.b-`
  std::string text;     // as typed, secrets starred out: its place in diagnostics
};

// True where the first part of a dotted name is a section of a recipe, so `--name` is an override
// and no unknown option.
bool NamesARecipeSection(std::string_view dotted);

// All of `arguments` are overrides, else InvalidArgument that names the first which is not, with
// the nearest section.
absl::StatusOr<std::vector<Override>> ParseOverrides(std::span<const std::string> arguments);

// Lays one override over the file's nodes; what it cannot address is reported at its own place.
void ApplyOverride(const Override& override, Node& root, Diagnostics& out);

}  // namespace am::recipe

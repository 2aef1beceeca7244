// LoadRecipe: a YAML file and overrides in, a Recipe and everything there is to say about it out.
//
// The way: document.h (YAML → nodes with places) → override.h (laid over) → bind.h (typed by
// schema.h, environment expanded, unknown keys refused) → Recipe. No training rules that need a
// cluster: those are the plan's. Takes milliseconds.
//   LoadResult result = LoadRecipe({.path = "recipe.yaml", .environment = Getenv});
//   if (!result.recipe) { err << RenderText(result.diagnostics); return kExitUsage; }
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/recipe/diagnostic.h"
#include "launcher/recipe/environment.h"
#include "launcher/recipe/override.h"
#include "launcher/recipe/recipe.h"

namespace am::recipe {

struct LoadOptions {
  std::string path;
  std::optional<std::string> text;  // instead of reading `path`, which then only names the places
  std::vector<Override> overrides;
  bool strict = false;  // warnings become errors
  Environment environment = [](const std::string&) { return std::nullopt; };
  Severity unset_variable = Severity::kWarning;  // kError for run and submit
  Severity not_trainable =
      Severity::kWarning;  // of what is understood and not trainable yet; kError for run
};

struct LoadResult {
  std::optional<Recipe> recipe;  // nothing where there is an error
  // What could be read in spite of errors, for further checks alone: `IsBroken` (value.h) says of
  // what nothing is known.
  std::optional<Recipe> readable;
  Diagnostics diagnostics;
};

LoadResult LoadRecipe(const LoadOptions& options);

}  // namespace am::recipe

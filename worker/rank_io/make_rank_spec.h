// MakeRankSpec: a recipe and its plan become what each rank is told: every default applied, every
// path absolute.
//
// Called once an attempt by whoever starts a job (amctl run, the controller). It looks at the file
// system (model directory, data set, Hugging Face cache), so what is missing is refused here,
// before any process starts.
//   auto made = MakeRankSpec(recipe, plan, {.job = "am-…", .attempt = 1, .environment = Getenv});
//   if (!made.spec) { err << RenderText(made.diagnostics); return kExitUsage; }
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "launcher/plan/plan.h"
#include "launcher/recipe/load.h"
#include "launcher/recipe/recipe.h"
#include "worker/rank_io/rank_spec.h"

namespace am {

struct RankSpecOptions {
  std::string job;
  int64_t attempt = 1;
  bool fresh = false;  // --fresh: never resume
  std::string
      working_directory;  // relative paths of the recipe are relative to this; empty: the process's
  int cores = 0;          // of a node; 0: the rank asks its own machine
  recipe::Environment environment = [](const std::string&) { return std::nullopt; };
};

struct RankSpecResult {
  std::optional<RankSpec> spec;  // nothing where there is an error
  recipe::Diagnostics diagnostics;
};

RankSpecResult MakeRankSpec(const recipe::Recipe& recipe, const plan::Plan& plan,
                            const RankSpecOptions& options);

}  // namespace am

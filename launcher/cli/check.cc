#include "launcher/cli/check.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "common/status_macros.h"
#include "launcher/plan/find_model.h"
#include "launcher/plan/machine.h"
#include "launcher/recipe/load.h"
#include "worker/rank_io/make_rank_spec.h"

namespace am::cli {
namespace {

using recipe::Severity;

}  // namespace

std::optional<std::string> EnvironmentVariable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

absl::StatusOr<CheckOptions> ReadCheckOptions(const Words& words) {
  CheckOptions options{.overrides = words.overrides,
                       .cluster = words.Value("cluster"),
                       .strict = words.Has("strict"),
                       .check_paths = words.Has("check-paths")};
  AM_ASSIGN_OR_RETURN(options.nodes, words.Count("nodes"));
  AM_ASSIGN_OR_RETURN(options.ranks_per_node, words.Count("gpus-per-node"));
  return options;
}

Checked Check(const std::string& path, const CheckOptions& options,
              const std::optional<plan::Cluster>& cluster) {
  Checked checked;
  auto add = [&](const recipe::Diagnostics& more) {
    checked.diagnostics.insert(checked.diagnostics.end(), more.begin(), more.end());
  };
  recipe::LoadResult loaded = recipe::LoadRecipe(
      {.path = path,
       .overrides = options.overrides,
       .environment = EnvironmentVariable,
       .unset_variable = options.check_paths ? Severity::kError : Severity::kWarning});
  add(loaded.diagnostics);
  if (loaded.recipe) {
    std::optional<model::FoundConfig> found =
        plan::FindModelOf(*loaded.recipe, EnvironmentVariable);
    std::optional<model::ModelConfig>& model = checked.model;
    if (found) model = std::move(found->config);
    if (!cluster) {
      add(plan::CheckWithoutCluster(*loaded.recipe, model));
    } else {
      plan::PlanResult planned = plan::MakePlan(*loaded.recipe, *cluster,
                                                {.nodes = options.nodes,
                                                 .ranks_per_node = options.ranks_per_node,
                                                 .model = model,
                                                 .flops_convention = options.flops_convention});
      add(planned.diagnostics);
      checked.plan = std::move(planned.plan);
    }
    if (options.check_paths && checked.plan) {
      add(MakeRankSpec(*loaded.recipe, *checked.plan,
                       {.job = "check", .environment = EnvironmentVariable})
              .diagnostics);
    }
  }
  checked.recipe = std::move(loaded.recipe);
  if (options.strict) recipe::TurnWarningsIntoErrors(checked.diagnostics);
  // What has no place of its own is about this recipe all the same.
  for (recipe::Diagnostic& diagnostic : checked.diagnostics) {
    if (!diagnostic.place.known()) diagnostic.place.file = path;
  }
  if (recipe::HasErrors(checked.diagnostics)) checked.plan.reset();
  return checked;
}

bool WantsColor(const std::ostream& stream) {
  bool terminal = (&stream == &std::cout && isatty(STDOUT_FILENO)) ||
                  (&stream == &std::cerr && isatty(STDERR_FILENO));
  return terminal && !EnvironmentVariable("NO_COLOR");
}

}  // namespace am::cli

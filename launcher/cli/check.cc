#include "launcher/cli/check.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "common/status_macros.h"
#include "launcher/cli/check_paths.h"
#include "launcher/plan/find_model.h"
#include "launcher/plan/machine.h"
#include "launcher/recipe/load.h"
#include "worker/rank_io/make_rank_spec.h"

namespace am::cli {
namespace {

using recipe::Severity;

recipe::LoadOptions LoadOptionsOf(const std::string& path, const CheckOptions& options) {
  return {.path = path,
          .overrides = options.overrides,
          .environment = EnvironmentVariable,
          .unset_variable = options.check_paths ? Severity::kError : Severity::kWarning};
}

// The key that names the model.
std::string ModelKey(const recipe::Recipe& recipe) {
  for (const char* key :
       {"model.pretrained_model_name_or_path", "model.config.pretrained_model_name_or_path",
        "model.config.name_or_path"}) {
    if (recipe.Has(key)) return key;
  }
  return "model.config";
}

// What `amctl run` would refuse though it is understood: said here, as a warning.
bool WarnOfModel(const recipe::Recipe& recipe, const std::optional<model::ModelConfig>& model,
                 recipe::Diagnostics& out) {
  if (recipe.kind() != "finetune" || !model) return false;
  std::string why = model::WhyNotTrainable(*model);
  if (why.empty()) return false;
  recipe.Report(out, Severity::kWarning, ModelKey(recipe), plan::ModelName(recipe) + ": " + why);
  return true;
}

// Where the recipe could run, what the ranks would be told is made as `amctl run` does; of all
// recipes, what the schema knows to be a path is looked for.
void LookForPaths(const recipe::Recipe& recipe, const std::optional<plan::Plan>& plan,
                  bool could_run, recipe::Diagnostics& out) {
  recipe::Diagnostics found;
  if (could_run && plan) {
    found = MakeRankSpec(recipe, *plan, {.job = "check", .environment = EnvironmentVariable})
                .diagnostics;
  }
  size_t deep = found.size();
  for (recipe::Diagnostic& diagnostic : CheckPaths(recipe, EnvironmentVariable)) {
    bool said = std::any_of(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(deep),
                            [&](const auto& other) { return other.key == diagnostic.key; });
    if (!said) found.push_back(std::move(diagnostic));
  }
  out.insert(out.end(), found.begin(), found.end());
}

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
  recipe::LoadResult loaded = recipe::LoadRecipe(LoadOptionsOf(path, options));
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
    bool could_run = !WarnOfModel(*loaded.recipe, model, checked.diagnostics);
    if (options.check_paths) {
      recipe::LoadOptions as_run = LoadOptionsOf(path, options);
      as_run.not_trainable = Severity::kError;
      could_run = could_run && recipe::LoadRecipe(as_run).recipe.has_value();
      LookForPaths(*loaded.recipe, checked.plan, could_run, checked.diagnostics);
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

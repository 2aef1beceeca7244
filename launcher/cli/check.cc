#include "launcher/cli/check.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "common/file.h"
#include "common/status_macros.h"
#include "launcher/cli/check_paths.h"
#include "launcher/plan/checkpoint_size.h"
#include "launcher/plan/find_model.h"
#include "launcher/plan/machine.h"
#include "launcher/plan/rules.h"
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
void LookForPaths(const recipe::Recipe& recipe, const std::optional<model::ModelConfig>& model,
                  const std::optional<plan::Plan>& plan, bool could_run, recipe::Diagnostics& out) {
  recipe::Diagnostics found;
  if (could_run && plan) {
    found = MakeRankSpec(recipe, *plan, {.job = "check", .environment = EnvironmentVariable})
                .diagnostics;
  }
  if (auto size = model ? plan::SizeOfCheckpoint(recipe, *model) : std::nullopt) {
    std::optional<double> free = FreeBytes(recipe.String("checkpoint.checkpoint_dir"));
    if (free) plan::CheckDisk(recipe, *size, *free, found);
  }
  size_t deep = found.size();
  for (recipe::Diagnostic& diagnostic : CheckPaths(recipe, EnvironmentVariable)) {
    bool said = std::any_of(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(deep),
                            [&](const auto& other) { return other.key == diagnostic.key; });
    if (!said) found.push_back(std::move(diagnostic));
  }
  out.insert(out.end(), found.begin(), found.end());
}

// Nothing is planned of a recipe that is wrong, but what is wrong with its layout as well is told
// in the same run.
void CheckLayoutToo(const recipe::Recipe& recipe, const CheckOptions& options,
                    const std::optional<plan::Cluster>& cluster, recipe::Diagnostics& out) {
  std::optional<model::ModelConfig> model;
  if (!IsBroken(recipe.root(), "model._target_") && !IsBroken(recipe.root(), "model.config")) {
    auto found = plan::FindModelOf(recipe, EnvironmentVariable);
    if (found) model = std::move(found->config);
  }
  if (!cluster) {
    for (auto& diagnostic : plan::CheckWithoutCluster(recipe, model)) out.push_back(diagnostic);
    return;
  }
  int nodes = options.nodes.value_or(cluster->nodes);
  int ranks = options.ranks_per_node.value_or(std::max(1, cluster->node.gpus));
  plan::CheckLayout(recipe, nodes * ranks, model, out);
}

bool IsTerminal(const std::ostream& stream) {
  return (&stream == &std::cout && isatty(STDOUT_FILENO)) ||
         (&stream == &std::cerr && isatty(STDERR_FILENO));
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

std::optional<plan::Cluster> NamedCluster(const std::string& name, recipe::Diagnostics& out) {
  plan::ClusterResult loaded = plan::LoadCluster(name, plan::ProbeMachine);
  out.insert(out.end(), loaded.diagnostics.begin(), loaded.diagnostics.end());
  return std::move(loaded.cluster);
}

Checked Check(const std::string& path, const CheckOptions& options,
              const std::optional<plan::Cluster>& cluster) {
  Checked checked;
  auto add = [&](const recipe::Diagnostics& more) {
    checked.diagnostics.insert(checked.diagnostics.end(), more.begin(), more.end());
  };
  recipe::LoadResult loaded = recipe::LoadRecipe(LoadOptionsOf(path, options));
  add(loaded.diagnostics);
  if (!loaded.recipe && loaded.readable) {
    CheckLayoutToo(*loaded.readable, options, cluster, checked.diagnostics);
  }
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
      LookForPaths(*loaded.recipe, model, checked.plan, could_run, checked.diagnostics);
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
  return IsTerminal(stream) && !EnvironmentVariable("NO_COLOR");
}

void Tell(std::ostream& stream, recipe::Diagnostics diagnostics, Severity least) {
  if (IsTerminal(stream)) recipe::AddExcerpts(diagnostics);
  stream << recipe::RenderText(diagnostics, {.color = WantsColor(stream), .least = least})
         << std::flush;
}

}  // namespace am::cli

#include "controller/server/prepare_job.h"

#include <chrono>
#include <utility>

#include "common/file.h"
#include "launcher/plan/checkpoint_size.h"
#include "launcher/plan/find_model.h"
#include "launcher/plan/plan.h"
#include "worker/rank_io/make_rank_spec.h"

namespace am::controller {
namespace {

RestartPolicy RestartPolicyOf(const recipe::Recipe& recipe) {
  return {.max_restarts = static_cast<int>(recipe.Int("restart.max_restarts")),
          .no_progress_limit = static_cast<int>(recipe.Int("restart.no_progress_limit")),
          .grace = std::chrono::milliseconds(
              static_cast<int64_t>(recipe.Float("restart.grace_s") * 1000))};
}

}  // namespace

PreparedJob PrepareJob(const PrepareOptions& options, const plan::Cluster& cluster) {
  PreparedJob prepared;
  // True where what follows makes sense.
  auto add = [&](recipe::Diagnostics more) {
    if (options.load.strict) recipe::TurnWarningsIntoErrors(more);
    for (recipe::Diagnostic& diagnostic : more) {  // all of it is about this recipe
      if (!diagnostic.place.known()) diagnostic.place.file = options.load.path;
      prepared.diagnostics.push_back(std::move(diagnostic));
    }
    return !recipe::HasErrors(prepared.diagnostics);
  };
  recipe::LoadResult loaded = recipe::LoadRecipe(options.load);
  if (!add(std::move(loaded.diagnostics)) || !loaded.recipe) return prepared;
  const recipe::Recipe& recipe = *loaded.recipe;

  plan::PlanResult planned = plan::MakePlan(
      recipe, cluster, {.nodes = options.nodes, .ranks_per_node = options.ranks_per_node});
  if (!add(std::move(planned.diagnostics)) || !planned.plan) return prepared;
  const plan::Plan& plan = *planned.plan;

  RankSpecResult made = MakeRankSpec(recipe, plan,
                                     {.job = options.job_id,
                                      .fresh = options.fresh,
                                      .working_directory = options.working_directory,
                                      .cores = options.cores,
                                      .environment = options.load.environment});
  if (!add(std::move(made.diagnostics)) || !made.spec) return prepared;
  auto model = plan::FindModelOf(recipe, options.load.environment);
  if (auto size = model ? plan::SizeOfCheckpoint(recipe, model->config) : std::nullopt) {
    recipe::Diagnostics disk;
    std::optional<double> free = FreeBytes(made.spec->checkpoint.dir);
    if (free) plan::CheckDisk(recipe, *size, *free, disk);
    if (!add(std::move(disk))) return prepared;
  }

  JobSpec& spec = prepared.spec.emplace();
  spec.id = options.job_id;
  spec.rank_spec_json = ToJson(*made.spec).dump();
  spec.world_size = static_cast<int>(plan.ranks.size());
  spec.restart = RestartPolicyOf(recipe);
  spec.demand = {.nodes = plan.nodes,
                 .ranks_per_node = plan.ranks_per_node,
                 .segment_nodes = plan.segment_nodes,
                 .gpus = plan.on_gpus};
  spec.checkpoint_dir = made.spec->checkpoint.dir;
  spec.total_steps = made.spec->schedule.max_steps.value_or(0);
  return prepared;
}

}  // namespace am::controller

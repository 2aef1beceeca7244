#include "launcher/plan/plan.h"

#include <ostream>

#include "common/exit_status.h"
#include "launcher/cli/check.h"
#include "launcher/cli/command.h"
#include "launcher/plan/machine.h"

namespace am::cli {

namespace {

constexpr Option kOptions[] = {
    {"cluster", "C", "local, another built-in name, or a file (local)"},
    kNodesOption,
    kGpusPerNodeOption,
    {"json", "", "one object, for programs"},
    kStrictOption,
};

int RunPlan(CommandContext& context) {
  auto fail = [&](absl::string_view message) {
    context.err << "amctl plan: " << message << " (amctl help plan)\n";
    return kExitUsage;
  };
  absl::StatusOr<Words> words = SplitWords(kPlanCommand, context.args);
  if (!words.ok()) return fail(words.status().message());
  absl::StatusOr<std::string> recipe = TheRecipe(*words);
  if (!recipe.ok()) return fail(recipe.status().message());
  absl::StatusOr<CheckOptions> options = ReadCheckOptions(*words);
  if (!options.ok()) return fail(options.status().message());
  auto cluster = plan::FindCluster(options->cluster.value_or("local"), plan::ProbeMachine);
  if (!cluster.ok()) return fail(cluster.status().message());
  Checked checked = Check(*recipe, *options, *cluster);
  context.err << recipe::RenderText(checked.diagnostics, {.color = WantsColor(context.err)});
  if (words->Has("json")) {
    nlohmann::json json =
        checked.plan ? plan::ToJson(*checked.plan, checked.diagnostics)
                     : nlohmann::json{{"diagnostics", recipe::ToJson(checked.diagnostics)}};
    context.out << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  } else if (checked.plan) {
    context.out << plan::ToText(*checked.plan);
  }
  return checked.plan ? kExitDone : kExitUsage;
}

}  // namespace

const Command kPlanCommand = {
    .name = "plan",
    .summary = "show how a recipe is laid out, and why",
    .usage = "plan RECIPE [options] [overrides]",
    .about =
        "Lays a recipe out on a cluster without starting anything: layout, batch arithmetic, "
        "and the reason\nfor each.",
    .options = kOptions,
    .overrides = true,
    .examples = "  amctl plan recipe.yaml --cluster dgx-h100 --nodes 2",
    .run = RunPlan,
};

}  // namespace am::cli

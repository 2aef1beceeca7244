#include "launcher/plan/plan.h"

#include <ostream>

#include "common/exit_status.h"
#include "launcher/cli/check.h"
#include "launcher/cli/command.h"
#include "launcher/plan/machine.h"

namespace am::cli {

int RunPlan(CommandContext& context) {
  auto fail = [&](absl::string_view message) {
    context.err << "amctl plan: " << message << " (amctl help plan)\n";
    return kExitUsage;
  };
  absl::StatusOr<CheckWords> words = ParseCheckWords(context.args);
  if (!words.ok()) return fail(words.status().message());
  if (words->recipes.size() != 1) {
    return fail("one recipe was expected, not also " + words->recipes[1]);
  }
  auto cluster = plan::FindCluster(words->cluster.value_or("local"), plan::ProbeMachine);
  if (!cluster.ok()) return fail(cluster.status().message());
  Checked checked = Check(words->recipes[0], *words, *cluster);
  context.err << recipe::RenderText(checked.diagnostics, {.color = WantsColor(context.err)});
  if (words->json) {
    nlohmann::json json =
        checked.plan ? plan::ToJson(*checked.plan, checked.diagnostics)
                     : nlohmann::json{{"diagnostics", recipe::ToJson(checked.diagnostics)}};
    context.out << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  } else if (checked.plan) {
    context.out << plan::ToText(*checked.plan);
  }
  return checked.plan ? kExitDone : kExitUsage;
}

}  // namespace am::cli

#include <ostream>

#include "common/exit_status.h"
#include "launcher/cli/check.h"
#include "launcher/cli/command.h"
#include "launcher/plan/machine.h"

namespace am::cli {
namespace {

using recipe::Severity;

std::string Verdict(const std::string& path, const recipe::Diagnostics& diagnostics) {
  int errors = 0, warnings = 0;
  for (const recipe::Diagnostic& diagnostic : diagnostics) {
    errors += diagnostic.severity == Severity::kError;
    warnings += diagnostic.severity == Severity::kWarning;
  }
  auto count = [](int number, const char* word) {
    return std::to_string(number) + " " + word + (number == 1 ? "" : "s");
  };
  if (errors > 0) return path + ": " + count(errors, "error") + "\n";
  return path + ": valid" + (warnings > 0 ? ", " + count(warnings, "warning") : "") + "\n";
}

}  // namespace

int RunValidate(CommandContext& context) {
  auto fail = [&](absl::string_view message) {
    context.err << "amctl validate: " << message << " (amctl help validate)\n";
    return kExitUsage;
  };
  absl::StatusOr<CheckWords> words = ParseCheckWords(context.args);
  if (!words.ok()) return fail(words.status().message());
  std::optional<plan::Cluster> cluster;
  // --check-paths needs a layout; this machine's will do.
  if (words->names_machines() || words->check_paths) {
    auto found = plan::FindCluster(words->cluster.value_or("local"), plan::ProbeMachine);
    if (!found.ok()) return fail(found.status().message());
    cluster = *found;
  }
  bool wrong = false;
  nlohmann::json all = nlohmann::json::array();
  for (const std::string& path : words->recipes) {
    Checked checked = Check(path, *words, cluster);
    wrong = wrong || recipe::HasErrors(checked.diagnostics);
    if (words->json) {
      for (auto& diagnostic : recipe::ToJson(checked.diagnostics)) all.push_back(diagnostic);
      continue;
    }
    context.err << recipe::RenderText(checked.diagnostics, {.color = WantsColor(context.err)});
    context.out << Verdict(path, checked.diagnostics);
  }
  if (words->json) {
    context.out << nlohmann::json{{"diagnostics", all}}.dump(
                       2, ' ', false, nlohmann::json::error_handler_t::replace)
                << "\n";
  }
  return wrong ? kExitUsage : kExitDone;
}

}  // namespace am::cli

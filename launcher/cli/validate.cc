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

constexpr Option kOptions[] = {
    {"cluster", "C", "check the layout against it: local, another built-in name, or a file"},
    kNodesOption,
    kGpusPerNodeOption,
    {"check-paths", "", "files, directories and variables that the recipe names have to be there"},
    {"json", "",
     R"({"diagnostics": [{"file", "line", "column", "severity", "key", "message", "hint"}]})"},
    kStrictOption,
};

int RunValidate(CommandContext& context) {
  auto fail = [&](absl::string_view message) {
    context.err << "amctl validate: " << message << " (amctl help validate)\n";
    return kExitUsage;
  };
  absl::StatusOr<Words> words = SplitWords(kValidateCommand, context.args);
  if (!words.ok()) return fail(words.status().message());
  if (words->plain.empty()) return fail("no recipe was given");
  absl::StatusOr<CheckOptions> options = ReadCheckOptions(*words);
  if (!options.ok()) return fail(options.status().message());
  bool json = words->Has("json");
  std::optional<plan::Cluster> cluster;
  // --check-paths needs a layout; this machine's will do.
  if (options->names_machines() || options->check_paths) {
    auto found = plan::FindCluster(options->cluster.value_or("local"), plan::ProbeMachine);
    if (!found.ok()) return fail(found.status().message());
    cluster = *found;
  }
  bool wrong = false;
  nlohmann::json all = nlohmann::json::array();
  for (const std::string& path : words->plain) {
    Checked checked = Check(path, *options, cluster);
    wrong = wrong || recipe::HasErrors(checked.diagnostics);
    if (json) {
      for (auto& diagnostic : recipe::ToJson(checked.diagnostics)) all.push_back(diagnostic);
      continue;
    }
    context.err << recipe::RenderText(checked.diagnostics, {.color = WantsColor(context.err)});
    context.out << Verdict(path, checked.diagnostics);
  }
  if (json) {
    context.out << nlohmann::json{{"diagnostics", all}}.dump(
                       2, ' ', false, nlohmann::json::error_handler_t::replace)
                << "\n";
  }
  return wrong ? kExitUsage : kExitDone;
}

}  // namespace

const Command kValidateCommand = {
    .name = "validate",
    .summary = "check recipes and say what is wrong, and where",
    .usage = "validate RECIPE... [options] [overrides]",
    .about =
        "Checks recipes without starting anything: keys, types, and what they come to. Exit "
        "status 0 when there is\nnothing but warnings, 2 when there is an error.",
    .options = kOptions,
    .overrides = true,
    .notes =
        "What is understood and not trainable yet is a warning here and in `amctl plan`, an "
        "error in `amctl run`.",
    .examples =
        "  amctl validate configs/recipes/*.yaml --strict\n"
        "  amctl validate recipe.yaml --cluster dgx-h100 --nodes 2 --check-paths",
    .run = RunValidate,
};

}  // namespace am::cli

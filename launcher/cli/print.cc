#include "launcher/recipe/print.h"

#include <ostream>

#include "common/exit_status.h"
#include "launcher/cli/check.h"
#include "launcher/cli/command.h"
#include "launcher/cli/words.h"
#include "launcher/recipe/load.h"

namespace am::cli {
namespace {

constexpr Option kOptions[] = {
    {"defaults", "", "also what the recipe is silent about"},
    {"json", "", R"({"recipe": {...}, "origins": {"KEY": {"kind", "file", "line", "column"}}})"},
    kStrictOption,
};

int RunPrint(CommandContext& context) {
  auto fail = [&](absl::string_view message) {
    context.err << "amctl print: " << message << " (amctl help print)\n";
    return kExitUsage;
  };
  absl::StatusOr<Words> words = SplitWords(kPrintCommand, context.args);
  if (!words.ok()) return fail(words.status().message());
  absl::StatusOr<std::string> path = TheRecipe(*words);
  if (!path.ok()) return fail(path.status().message());
  recipe::LoadResult loaded = recipe::LoadRecipe({.path = *path,
                                                  .overrides = words->overrides,
                                                  .strict = words->Has("strict"),
                                                  .environment = EnvironmentVariable});
  context.err << recipe::RenderText(loaded.diagnostics, {.color = WantsColor(context.err)});
  if (!loaded.recipe) return kExitUsage;
  recipe::PrintOptions options{.defaults = words->Has("defaults")};
  if (words->Has("json")) {
    context.out << recipe::JsonWithOrigins(*loaded.recipe, options)
                       .dump(2, ' ', false, nlohmann::json::error_handler_t::replace)
                << '\n';
  } else {
    context.out << recipe::PrintWithOrigins(*loaded.recipe, options);
  }
  return kExitDone;
}

}  // namespace

const Command kPrintCommand = {
    .name = "print",
    .summary = "show the resolved recipe, and where each value comes from",
    .usage = "print RECIPE [options] [overrides]",
    .about =
        "Prints the recipe as it is understood, overrides laid over it, with the origin of each "
        "value as a comment:\na line of the file, an override, a variable, a default. Secrets "
        "are starred out. The output is a recipe.",
    .options = kOptions,
    .overrides = true,
    .examples = "  amctl print recipe.yaml --optimizer.lr=1e-4 --defaults",
    .run = RunPrint,
};

}  // namespace am::cli

#include <ostream>

#include "common/exit_status.h"
#include "launcher/cli/command.h"
#include "launcher/cli/words.h"
#include "launcher/recipe/json_schema.h"

namespace am::cli {
namespace {

int RunSchema(CommandContext& context) {
  absl::StatusOr<Words> words = SplitWords(kSchemaCommand, context.args);
  if (!words.ok()) {
    context.err << "amctl schema: " << words.status().message() << '\n';
    return kExitUsage;
  }
  if (!words->plain.empty()) {
    context.err << "amctl schema: takes no arguments, got " << words->plain[0] << '\n';
    return kExitUsage;
  }
  context.out << recipe::JsonSchema().dump(1) << '\n';
  return kExitDone;
}

}  // namespace

const Command kSchemaCommand = {
    .name = "schema",
    .summary = "print the JSON Schema of recipes, for editors",
    .usage = "schema",
    .about =
        "Prints a JSON Schema (draft 2020-12) of recipes: with it an editor completes keys, "
        "shows what they mean\nand marks mistakes while one types.",
    .notes =
        "In Visual Studio Code with the YAML extension, let a recipe begin with\n"
        "  # yaml-language-server: $schema=amctl.schema.json\n"
        "or map the file to your recipes under yaml.schemas in the settings.",
    .examples = "  amctl schema > amctl.schema.json",
    .run = RunSchema,
};

}  // namespace am::cli

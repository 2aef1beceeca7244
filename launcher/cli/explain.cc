#include "launcher/recipe/explain.h"

#include <ostream>

#include "common/exit_status.h"
#include "launcher/cli/command.h"
#include "launcher/cli/words.h"

namespace am::cli {
namespace {

constexpr Option kOptions[] = {{"json", "", "one object, for programs"}};

int RunExplain(CommandContext& context) {
  auto fail = [&](absl::string_view message) {
    context.err << "amctl explain: " << message << '\n';
    return kExitUsage;
  };
  absl::StatusOr<Words> words = SplitWords(kExplainCommand, context.args);
  if (!words.ok()) return fail(words.status().message());
  if (words->plain.size() > 1) return fail("one key was expected, not also " + words->plain[1]);
  std::string key = words->plain.empty() ? "" : words->plain[0];
  if (words->Has("json")) {
    if (auto json = recipe::ExplainJson(key))
      return context.out << json->dump(2) << '\n', kExitDone;
  } else if (auto text = recipe::ExplainText(key)) {
    return context.out << *text, kExitDone;
  }
  std::string message = "unknown key " + key;
  std::vector<std::string> near = recipe::KeysLike(key);
  for (size_t i = 0; i < near.size(); ++i) {
    message += (i == 0 ? "; did you mean " : i + 1 < near.size() ? ", " : " or ") + near[i];
  }
  return fail(message + (near.empty() ? " (amctl explain lists the sections)" : "?"));
}

}  // namespace

const Command kExplainCommand = {
    .name = "explain",
    .summary = "say what a key of a recipe means",
    .usage = "explain [KEY] [--json]",
    .about =
        "Says what a key is for: type, default, unit, allowed values, meaning, and what becomes "
        "of it. Of a section\nit lists the keys and what `_target_` may be; without a key, the "
        "sections.",
    .options = kOptions,
    .examples = "  amctl explain optimizer.lr\n  amctl explain distributed",
    .run = RunExplain,
};

}  // namespace am::cli

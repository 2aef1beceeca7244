// Any bytes at all as a recipe: a recipe or diagnostics, in bounded time and memory; what loads
// prints back as itself; and what could be read is laid out, whatever is wrong with it.
//   --an.override=3          the first lines, as far as they begin with --
//   recipe: …                with ${VARIABLES}, of which some are set
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "launcher/plan/plan.h"
#include "launcher/plan/rules.h"
#include "launcher/recipe/load.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace am;
  using namespace am::recipe;
  std::string text(reinterpret_cast<const char*>(data), size);
  LoadOptions options{.path = "fuzz.yaml"};
  options.environment = [](const std::string& name) -> std::optional<std::string> {
    if (name.starts_with("A")) return "1";
    if (name.starts_with("B")) return "a\"b: {\n\t'$C";
    return std::nullopt;
  };
  while (text.starts_with("--")) {
    size_t end = std::min(text.find('\n'), text.size());
    auto overrides = ParseOverrides(std::vector<std::string>{text.substr(0, end)});
    if (overrides.ok()) {
      options.overrides.insert(options.overrides.end(), overrides->begin(), overrides->end());
    }
    text.erase(0, std::min(end + 1, text.size()));
  }
  options.text = text;
  LoadResult result = LoadRecipe(options);
  RenderText(result.diagnostics, {.color = true, .least = Severity::kInfo});
  ToJson(result.diagnostics).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (result.recipe.has_value() == HasErrors(result.diagnostics)) std::abort();
  if (result.readable) {
    const std::optional<model::ModelConfig> model = model::ModelConfig{
        .num_hidden_layers = 16, .num_attention_heads = 32, .num_key_value_heads = 8};
    plan::CheckWithoutCluster(*result.readable, model);
    Diagnostics found;
    plan::CheckLayout(*result.readable, 64, model, found);
  }
  if (!result.recipe) return 0;
  LoadResult again = LoadRecipe(
      {.path = "fuzz.yaml", .text = result.recipe->ToYaml(), .environment = options.environment});
  if (!again.recipe) std::abort();
  return 0;
}

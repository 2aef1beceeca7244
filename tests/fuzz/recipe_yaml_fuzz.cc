// Any bytes at all as a recipe: a recipe or diagnostics, in bounded time and memory; and what loads
// prints back as itself.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "launcher/recipe/load.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace am::recipe;
  std::string text(reinterpret_cast<const char*>(data), size);
  LoadOptions options{.path = "fuzz.yaml", .text = text};
  // The first line may be an override.
  if (text.starts_with("--")) {
    std::string line = text.substr(0, text.find('\n'));
    if (auto overrides = ParseOverrides(std::vector<std::string>{line}); overrides.ok()) {
      options.overrides = *overrides;
    }
    options.text = text.substr(line.size());
  }
  LoadResult result = LoadRecipe(options);
  RenderText(result.diagnostics, {.color = true, .least = Severity::kInfo});
  ToJson(result.diagnostics).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (result.recipe.has_value() == HasErrors(result.diagnostics)) std::abort();
  if (!result.recipe) return 0;
  LoadResult again = LoadRecipe({.path = "fuzz.yaml", .text = result.recipe->ToYaml()});
  if (!again.recipe) std::abort();
  return 0;
}

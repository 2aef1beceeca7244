#include "launcher/plan/find_model.h"

#include <string>

#include "launcher/plan/plan.h"

namespace am::plan {

std::optional<model::FoundConfig> FindModelOf(const recipe::Recipe& recipe,
                                              const model::Environment& environment) {
  std::string name = ModelName(recipe);
  if (name.empty()) return std::nullopt;
  nlohmann::json overrides = recipe.Undeclared("model");
  const recipe::Value* config = recipe.Find("model.config");
  if (config && config->map()) overrides.update(recipe.Undeclared("model.config"));
  if (nlohmann::json text = recipe.Free("model.text_config"); text.is_object()) {
    overrides["text_config"] = text;
  }
  auto found = model::FindModelConfig(name, overrides, environment);
  return found.ok() ? std::optional(*std::move(found)) : std::nullopt;
}

}  // namespace am::plan

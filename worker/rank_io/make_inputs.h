// What a recipe names in the file system, found: the model directory, the data sets, a chat
// template. Each failure is a diagnostic at the key that named it, with the override that would
// cure it.
#pragma once

#include <optional>
#include <string>

#include "launcher/model/config.h"
#include "launcher/recipe/environment.h"
#include "launcher/recipe/recipe.h"
#include "worker/rank_io/rank_spec.h"

namespace am {

class InputFinder {
 public:
  InputFinder(const recipe::Recipe& recipe, std::string working_directory,
              recipe::Environment environment, recipe::Diagnostics& out);

  // Relative to the working directory, `~` expanded, no `..` left.
  std::string Absolute(const std::string& path) const;

  struct Model {
    ModelSpec spec;
    model::ModelConfig config;
  };
  // The directory, its config.json with the recipe's values laid over it, refused where the engine
  // cannot train it.
  std::optional<Model> FindModel();

  // `section` is "dataset" or the key of a validation set.
  std::optional<DatasetSpec> FindDataset(const std::string& section, const std::string& name);

  // Text of the template that the recipe names for the model or the data set: itself, or the file
  // that it names.
  std::string ChatTemplate();

 private:
  std::optional<std::string> FindModelDirectory(const std::string& key, const std::string& name);
  std::optional<std::string> FindDataPath(const std::string& key, const std::string& name);
  void CheckOverrides(const nlohmann::json& overrides, const model::ModelConfig& config);
  std::string Cache() const;

  const recipe::Recipe& recipe_;
  const std::string working_directory_;
  const recipe::Environment environment_;
  recipe::Diagnostics& out_;
};

}  // namespace am

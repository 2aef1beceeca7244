// Recipe: what the user decided. Typed, defaulted, each value knows its place; prints back as YAML.
//
// Made by LoadRecipe (load.h), read by the plan and by make_rank_spec. Immutable after that, so any
// thread may read it. Keys are dotted paths. What a key is (type, default, range) is said once, in
// the schema (schema.h); asking for a key that the schema does not have, or as another type, is a
// bug and aborts.
//   int64_t tp = recipe.Int("distributed.tp_size");                      // the default where the
//   recipe is silent std::optional<int64_t> steps = recipe.OptInt("step_scheduler.max_steps");
//   recipe.Error(diagnostics, "distributed.tp_size", "3 does not divide 32", "use 1, 2, 4");
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/recipe/diagnostic.h"
#include "launcher/recipe/value.h"

namespace am::recipe {

class Recipe {
 public:
  Recipe() = default;
  Recipe(std::string file, Value root, std::string kind = "finetune");

  const std::string& file() const { return file_; }
  const Value& root() const { return root_; }
  // Which loop it is for, by `recipe` or by the sections that only one kind has: "finetune",
  // "benchmark", "diffusion", …
  const std::string& kind() const { return kind_; }

  // Given and not null. True for sections and for keys.
  bool Has(std::string_view key) const;
  // The value as given, or null where the recipe is silent.
  const Value* Find(std::string_view key) const;
  // Of the value; else of the nearest enclosing section that is given; else the file alone.
  Place PlaceOf(std::string_view key) const;

  // The value, else the default. Abort where there is neither.
  bool Bool(std::string_view key) const;
  int64_t Int(std::string_view key) const;
  double Float(std::string_view key) const;
  std::string String(std::string_view key) const;

  // Nothing where the value is null, or absent without default.
  std::optional<bool> OptBool(std::string_view key) const;
  std::optional<int64_t> OptInt(std::string_view key) const;
  std::optional<double> OptFloat(std::string_view key) const;
  std::optional<std::string> OptString(std::string_view key) const;

  std::vector<std::string> Strings(
      std::string_view key) const;  // a single string counts as a list of one
  std::vector<double> Floats(std::string_view key) const;
  nlohmann::json Free(std::string_view key) const;  // anything; null where the recipe is silent
  // Of a section like `model`: the values that are laid over config.json, which are the keys that
  // the schema does not have and those that it has as fields of that file.
  nlohmann::json Undeclared(std::string_view section) const;

  // The built-in part that the section's `_target_` names (schema.h), e.g. "squad", "adamw",
  // "masked_ce"; the section's default part where no target is given.
  std::string Part(std::string_view section) const;

  // Top-level keys that begin with `validation_dataset`, with the name of the set ("default" for
  // the plain one).
  struct NamedSection {
    std::string key;
    std::string name;
  };
  std::vector<NamedSection> ValidationSets() const;

  // As it was given, overrides in, environment tokens unexpanded, secrets starred out. Loads to the
  // same recipe.
  std::string ToYaml() const;

  // Append a diagnostic at the key's place.
  void Report(Diagnostics& out, Severity severity, std::string_view key, std::string message,
              std::string hint = "") const;
  void Error(Diagnostics& out, std::string_view key, std::string message,
             std::string hint = "") const;

 private:
  std::string file_;
  Value root_;
  std::string kind_;
};

}  // namespace am::recipe

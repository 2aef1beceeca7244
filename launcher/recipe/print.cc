#include "launcher/recipe/print.h"

#include <algorithm>
#include <optional>

#include "launcher/recipe/environment.h"
#include "launcher/recipe/scalar.h"
#include "launcher/recipe/schema.h"
#include "launcher/recipe/secret.h"
#include "launcher/recipe/yaml_text.h"

namespace am::recipe {
namespace {

constexpr size_t kWidest = 60;  // comments begin no further right than this, but for longer lines

// Sections that hold though a recipe is silent about them.
constexpr std::string_view kAlwaysThere[] = {"step_scheduler", "dist_env",       "distributed",
                                             "checkpoint",     "clip_grad_norm", "restart"};

// Defaults that do not hold where the other key is given.
struct Alternative {
  std::string_view key, other;
};
constexpr Alternative kAlternatives[] = {
    {"seed", "rng.seed"},
    {"rng.seed", "seed"},
    {"step_scheduler.global_batch_size", "step_scheduler.grad_acc_steps"},
    {"step_scheduler.local_batch_size", "dataloader.batch_size"},
    {"model.torch_dtype", "model.dtype"},
};

bool Holds(const Recipe& recipe, const std::string& key) {
  for (const Alternative& alternative : kAlternatives) {
    if (key == alternative.key && recipe.Has(alternative.other)) return false;
  }
  return true;
}

// Adds the defaults of a section's keys, and of the sections given within it.
void AddDefaults(const Recipe& recipe, const Section& section, const std::string& path,
                 Value& value) {
  if (!value.map()) return;
  const Part* part = PartOf(section, &value);
  for (Entry& entry : std::get<Map>(value.data)) {
    const Key* key = FindKey(section, part, entry.key);
    if (key && key->section && entry.value.map()) {
      AddDefaults(recipe, *key->section, path + entry.key + ".", entry.value);
    }
  }
  auto add = [&](std::span<const Key> keys) {
    for (const Key& key : keys) {
      std::string dotted = path + std::string(key.name);
      // What is not done is of no interest while it is off, nor what only other kinds have.
      bool counts = key.support == Support::kHonoured || (key.support == Support::kNotTrainable &&
                                                          key.type != Type::kBool && !path.empty());
      if (!counts || key.fallback.empty() || value.Find(key.name) || !Holds(recipe, dotted)) {
        continue;
      }
      std::get<Map>(value.data).push_back({std::string(key.name), {}, FallbackOf(key)});
    }
  };
  // What the part says comes first: its default wins over the section's.
  if (part) add(part->keys);
  for (const Section* table = &section; table; table = table->also) add(table->keys);
}

Value WithDefaults(const Recipe& recipe) {
  Value root = recipe.root();
  if (recipe.kind() == "finetune") {
    for (std::string_view name : kAlwaysThere) {
      if (!root.Find(name)) {
        std::get<Map>(root.data).push_back({std::string(name), {}, {.data = Map()}});
      }
    }
  }
  AddDefaults(recipe, kRecipeSchema, "", root);
  // Those that have no default stay away.
  std::erase_if(std::get<Map>(root.data), [](const Entry& entry) {
    return entry.value.map() && entry.value.map()->empty() && !entry.value.place.known();
  });
  return root;
}

bool IsHidden(const std::string& key, const Value& value) {
  return IsSecretKey(key) || HoldsSecret(value.text);
}

std::string OriginText(const Value& value) {
  if (!value.place.known()) return "default";
  std::string text = value.place.file;
  for (char& c : text) c = static_cast<unsigned char>(c) < 0x20 ? ' ' : c;  // one line
  if (value.place.line > 0) text += ":" + std::to_string(value.place.line);
  std::vector<std::string> variables = VariablesOf(value.text);
  for (size_t i = 0; i < variables.size(); ++i) {
    text += (i == 0 ? ", environment " : " ") + variables[i];
  }
  return text;
}

nlohmann::json OriginJson(const Value& value) {
  if (!value.place.known()) return {{"kind", "default"}};
  nlohmann::json origin;
  if (value.place.line > 0) {
    origin = {{"kind", "file"},
              {"file", value.place.file},
              {"line", value.place.line},
              {"column", value.place.column}};
  } else {
    origin = {{"kind", "override"}, {"override", value.place.file}};
  }
  std::vector<std::string> variables = VariablesOf(value.text);
  if (!variables.empty()) origin["environment"] = variables;
  return origin;
}

nlohmann::json Shown(const std::string& key, const Value& value) {
  if (const Map* map = value.map()) {
    nlohmann::json out = nlohmann::json::object();
    for (const Entry& entry : *map) out[entry.key] = Shown(entry.key, entry.value);
    return out;
  }
  if (const List* list = value.list()) {
    nlohmann::json out = nlohmann::json::array();
    for (const Value& item : *list) out.push_back(Shown(key, item));
    return out;
  }
  if (value.text.find('$') != std::string::npos) return value.text;
  if (!value.is_null() && IsHidden(key, value)) return std::string(kStars);
  return ToJson(value);
}

// Characters, not bytes, so that comments stand in one column.
size_t Width(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

}  // namespace

std::vector<std::string> VariablesOf(std::string_view text) {
  std::vector<std::string> names;
  Expand(text, [&](const std::string& name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    return std::optional<std::string>("");
  });
  return names;
}

std::string PrintWithOrigins(const Recipe& recipe, const PrintOptions& options) {
  Value root = options.defaults ? WithDefaults(recipe) : recipe.root();
  std::vector<YamlLine> lines = YamlLines(root);
  size_t column = 0;
  for (const YamlLine& line : lines) {
    size_t width = Width(line.text);
    if (line.leaf && width <= kWidest) column = std::max(column, width);
  }
  std::string out;
  for (const YamlLine& line : lines) {
    out += line.text;
    if (line.leaf) {
      size_t width = Width(line.text);
      out +=
          std::string(width < column ? column - width : 0, ' ') + "  # " + OriginText(*line.leaf);
    }
    out += "\n";
  }
  return out;
}

nlohmann::json JsonWithOrigins(const Recipe& recipe, const PrintOptions& options) {
  Value root = options.defaults ? WithDefaults(recipe) : recipe.root();
  nlohmann::json origins = nlohmann::json::object();
  for (const YamlLine& line : YamlLines(root)) {
    if (line.leaf) origins[line.key] = OriginJson(*line.leaf);
  }
  return {{"recipe", Shown("", root)}, {"origins", origins}};
}

}  // namespace am::recipe

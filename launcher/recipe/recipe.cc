#include "launcher/recipe/recipe.h"

#include <cstdio>
#include <cstdlib>

#include "launcher/recipe/scalar.h"
#include "launcher/recipe/schema.h"

namespace am::recipe {
namespace {

// Asking for what the schema does not have is a bug of ours, not of the recipe.
[[noreturn]] void Bug(std::string_view key, const char* what) {
  std::fprintf(stderr, "recipe: %.*s: %s\n", static_cast<int>(key.size()), key.data(), what);
  std::abort();
}

// The value, or the default where the recipe is silent or (`required`) null.
template <typename T>
std::optional<T> Get(const Recipe& recipe, std::string_view key, bool required) {
  const Key* declared = FindKey(recipe.root(), key);
  if (!declared) Bug(key, "no key of the schema");
  const Value* given = recipe.Find(key);
  if (given && !given->is_null()) {
    if (const T* value = std::get_if<T>(&given->data)) return *value;
    if constexpr (std::is_same_v<T, std::string>) {
      if (!given->list() && !given->map()) return given->text;
    }
    Bug(key, "asked for as another type");
  }
  if (given && !required && !given->expanded) return std::nullopt;
  Value fallback = FallbackOf(*declared);
  if (fallback.is_null()) {
    if (required) Bug(key, "no value and no default");
    return std::nullopt;
  }
  if (const T* value = std::get_if<T>(&fallback.data)) return *value;
  Bug(key, "its default is of another type");
}

}  // namespace

Recipe::Recipe(std::string file, Value root, std::string kind)
    : file_(std::move(file)), root_(std::move(root)), kind_(std::move(kind)) {}

const Value* Recipe::Find(std::string_view key) const {
  const Value* value = &root_;
  for (std::string_view name : Split(key, '.')) {
    value = value->Find(name);
    if (!value) return nullptr;
  }
  return value;
}

bool Recipe::Has(std::string_view key) const {
  const Value* value = Find(key);
  return value && !value->is_null();
}

Place Recipe::PlaceOf(std::string_view key) const {
  Place place{.file = file_};
  const Value* value = &root_;
  for (std::string_view name : Split(key, '.')) {
    value = value->Find(name);
    if (!value) break;
    place = value->place;
  }
  return place;
}

bool Recipe::Bool(std::string_view key) const { return *Get<bool>(*this, key, true); }
int64_t Recipe::Int(std::string_view key) const { return *Get<int64_t>(*this, key, true); }
double Recipe::Float(std::string_view key) const { return *Get<double>(*this, key, true); }
std::string Recipe::String(std::string_view key) const {
  return *Get<std::string>(*this, key, true);
}

std::optional<bool> Recipe::OptBool(std::string_view key) const {
  return Get<bool>(*this, key, false);
}
std::optional<int64_t> Recipe::OptInt(std::string_view key) const {
  return Get<int64_t>(*this, key, false);
}
std::optional<double> Recipe::OptFloat(std::string_view key) const {
  return Get<double>(*this, key, false);
}
std::optional<std::string> Recipe::OptString(std::string_view key) const {
  return Get<std::string>(*this, key, false);
}

std::vector<std::string> Recipe::Strings(std::string_view key) const {
  const Value* given = Find(key);
  if (!given || !given->list()) {
    std::optional<std::string> one = OptString(key);
    return one ? std::vector{*one} : std::vector<std::string>();
  }
  std::vector<std::string> texts;
  for (const Value& item : *given->list()) {
    if (const auto* text = std::get_if<std::string>(&item.data)) texts.push_back(*text);
  }
  return texts;
}

std::vector<double> Recipe::Floats(std::string_view key) const {
  const Key* declared = FindKey(root_, key);
  if (!declared) Bug(key, "no key of the schema");
  const Value* given = Find(key);
  Value fallback = FallbackOf(*declared);
  const Value& value = given && given->list() ? *given : fallback;
  std::vector<double> numbers;
  if (!value.list()) return numbers;
  for (const Value& item : *value.list()) {
    if (const auto* number = std::get_if<double>(&item.data)) numbers.push_back(*number);
  }
  return numbers;
}

nlohmann::json Recipe::Free(std::string_view key) const {
  const Value* given = Find(key);
  return given ? ToJson(*given) : nlohmann::json();
}

nlohmann::json Recipe::Undeclared(std::string_view section_key) const {
  const Key* declared = FindKey(root_, section_key);
  if (!declared || !declared->section) Bug(section_key, "no section of the schema");
  const Value* given = Find(section_key);
  nlohmann::json out = nlohmann::json::object();
  if (!given || !given->map()) return out;
  const recipe::Part* part = PartOf(*declared->section, given);
  for (const Entry& entry : *given->map()) {
    const Key* key = FindKey(*declared->section, part, entry.key);
    if (!key || key->overlay) out[entry.key] = ToJson(entry.value);
  }
  return out;
}

std::string Recipe::Part(std::string_view section_key) const {
  const Key* declared = FindKey(root_, section_key);
  if (!declared || !declared->section) Bug(section_key, "no section of the schema");
  const Value* given = Find(section_key);
  const recipe::Part* part =
      PartOf(*declared->section, given && !given->is_null() ? given : nullptr);
  return part ? std::string(part->name) : "";
}

std::vector<Recipe::NamedSection> Recipe::ValidationSets() const {
  constexpr std::string_view kPrefix = "validation_dataset";
  std::vector<NamedSection> sets;
  if (!root_.map()) return sets;
  for (const Entry& entry : *root_.map()) {
    if (!std::string_view(entry.key).starts_with(kPrefix) || !entry.value.map()) continue;
    std::string name = entry.key.substr(kPrefix.size());
    if (!name.empty() && std::string_view("_-.").find(name.front()) != std::string::npos) {
      name.erase(0, 1);
    }
    sets.push_back({entry.key, name.empty() ? "default" : name});
  }
  return sets;
}

void Recipe::Report(Diagnostics& out, Severity severity, std::string_view key, std::string message,
                    std::string hint) const {
  out.push_back({.severity = severity,
                 .place = PlaceOf(key),
                 .key = std::string(key),
                 .message = std::move(message),
                 .hint = std::move(hint)});
}

void Recipe::Error(Diagnostics& out, std::string_view key, std::string message,
                   std::string hint) const {
  Report(out, Severity::kError, key, std::move(message), std::move(hint));
}

}  // namespace am::recipe

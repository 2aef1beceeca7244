#include "launcher/recipe/support.h"

#include "launcher/recipe/scalar.h"

namespace am::recipe {

bool IsSwitchedOff(const Key& key, const Value& value) {
  if (!key.section || key.section->enabled_by.empty()) return false;
  const Value* given = value.Find(key.section->enabled_by);
  const Key* declared = FindKey(*key.section, nullptr, key.section->enabled_by);
  const Value fallback = FallbackOf(*declared);
  const auto* on = std::get_if<bool>(given && !given->is_null() ? &given->data : &fallback.data);
  return on && !*on;
}

bool IsNeutral(const Key& key, const Value& value) {
  if (value.list() && value.list()->empty()) return true;
  if (value.map() && value.map()->empty()) return true;
  if (!key.fallback.empty() && value.data == FallbackOf(key).data) return true;
  for (std::string_view word : Split(key.neutral, ' ')) {
    if (word.empty()) continue;
    Key alone = key;
    alone.fallback = word;
    if (value.data == FallbackOf(alone).data) return true;
  }
  // Without a default, false asks for nothing.
  const auto* flag = std::get_if<bool>(&value.data);
  return flag && !*flag && key.fallback.empty() && key.neutral.empty();
}

}  // namespace am::recipe

#include "launcher/recipe/value.h"

#include <algorithm>

namespace am::recipe {

bool operator==(const Value& a, const Value& b) { return a.data == b.data; }
bool operator==(const Entry& a, const Entry& b) { return a.key == b.key && a.value == b.value; }

const Value* Value::Find(std::string_view key) const {
  if (const Map* entries = map()) {
    for (const Entry& entry : *entries) {
      if (entry.key == key) return &entry.value;
    }
  }
  return nullptr;
}

bool IsBroken(const Value& root, std::string_view dotted) {
  const Value* value = &root;
  while (value) {
    if (value->broken) return true;
    if (dotted.empty()) return false;
    size_t dot = std::min(dotted.find('.'), dotted.size());
    value = value->Find(dotted.substr(0, dot));
    dotted.remove_prefix(std::min(dot + 1, dotted.size()));
  }
  return false;
}

nlohmann::json ToJson(const Value& value) {
  if (const Map* map = value.map()) {
    nlohmann::json out = nlohmann::json::object();
    for (const Entry& entry : *map) out[entry.key] = ToJson(entry.value);
    return out;
  }
  if (const List* list = value.list()) {
    nlohmann::json out = nlohmann::json::array();
    for (const Value& item : *list) out.push_back(ToJson(item));
    return out;
  }
  if (const auto* flag = std::get_if<bool>(&value.data)) return *flag;
  if (const auto* number = std::get_if<int64_t>(&value.data)) return *number;
  if (const auto* number = std::get_if<double>(&value.data)) return *number;
  if (const auto* text = std::get_if<std::string>(&value.data)) return *text;
  return nullptr;
}

}  // namespace am::recipe

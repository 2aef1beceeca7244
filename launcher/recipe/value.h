// Value: a node of a recipe after each scalar was typed by the key it belongs to. It remembers how
// and where it was written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "launcher/recipe/diagnostic.h"

namespace am::recipe {

struct Value;

struct Entry;  // of a map: key, its place, value

using List = std::vector<Value>;
using Map = std::vector<Entry>;  // in the order of the file

struct Value {
  // Null, bool, integer, float, text; choices and dtypes are text in their canonical spelling.
  std::variant<std::monostate, bool, int64_t, double, std::string, List, Map> data;
  Place place;
  std::string text;       // a scalar as written, with environment tokens unexpanded
  bool quoted = false;    // it stood in quotes or in a block: text, never null
  bool expanded = false;  // it holds something of the environment: never printed
  bool broken = false;    // what was meant is not known: refused, given twice, its variable unset

  bool is_null() const { return std::holds_alternative<std::monostate>(data); }
  const List* list() const { return std::get_if<List>(&data); }
  const Map* map() const { return std::get_if<Map>(&data); }
  const Value* Find(std::string_view key) const;  // null where this is no map or has no such key
};

struct Entry {
  std::string key;
  Place place;
  Value value;
};

// Equal data; places and spellings do not count.
bool operator==(const Value& a, const Value& b);
bool operator==(const Entry& a, const Entry& b);

// True where the value of a dotted key, or a section on the way to it, is broken.
bool IsBroken(const Value& root, std::string_view dotted);

// For free maps: what YAML 1.2's core schema makes of it (environment expanded).
nlohmann::json ToJson(const Value& value);

}  // namespace am::recipe

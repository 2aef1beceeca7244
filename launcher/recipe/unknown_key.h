// unknown_key: what to say of a key that a section does not know, and which key was probably meant:
// misspelt, in the wrong section, another program's name, a missing blank or colon, a twin in
// another case. Asked by bind.h for each key that has no declaration. Pure.
//   if (IsOwn(map, entry)) …                              // in an open section: taken as it stands
//   UnknownKey unknown = JudgeUnknownKey(map, entry);     // else refused
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/recipe/diagnostic.h"
#include "launcher/recipe/document.h"
#include "launcher/recipe/schema.h"

namespace am::recipe {

// A map of the file and what its section knows of keys.
struct MapContext {
  const Section& section;
  const Node& node;
  const std::string& path;      // dotted; empty for a whole file
  bool is_recipe = false;       // within a recipe, and no file of another kind
  const Part* part = nullptr;   // that its target names
  bool implied = false;         // the recipe's kind implies the part: the keys of all are known
  bool refused_target = false;  // then nothing is known of its keys
  bool open = false;            // a key that is not known is the user's own
  std::vector<std::string_view> known = {};
  std::vector<std::string_view> missing = {};  // those of them that the map does not have yet
};

// The dotted path of a key.
std::string Join(const std::string& path, std::string_view name);

// True of names that other programs take for includes; none is a key, though `_base_` may look so.
bool IsInclude(const MapContext& map, std::string_view key);

// True where a key is the user's own and not a known one misspelt or out of place.
bool IsOwn(const MapContext& map, const NodeEntry& entry);
// What to say of one nevertheless.
Diagnostics RemarksOnOwn(const MapContext& map, const NodeEntry& entry);
// A key that an earlier one of the map differs from in case alone.
std::optional<Diagnostic> TwinRemark(const Node& map, const NodeEntry& entry,
                                     const std::string& path);

struct UnknownKey {
  std::optional<Diagnostic> refusal;  // nothing where it was said of another key
  std::string meant = "";             // the key of the section that was probably meant
  std::optional<std::string> belongs_to = std::nullopt;  // a section; "" for the top of the recipe
};

UnknownKey JudgeUnknownKey(const MapContext& map, const NodeEntry& entry);

}  // namespace am::recipe

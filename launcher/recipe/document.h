// document: YAML text as a tree of nodes that know where they stand. The only file that includes
// yaml-cpp.
//
// One document of plain maps, lists and scalars: anchors, aliases and merge keys are resolved here,
// within limits of depth and size (no billion laughs); duplicate keys, tags and syntax errors are
// refused with their place. Scalars stay text.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/recipe/diagnostic.h"

namespace am::recipe {

struct NodeEntry;

struct Node {
  enum class Kind { kScalar, kList, kMap };
  Kind kind = Kind::kScalar;
  Place place;
  std::string text;     // kScalar
  bool quoted = false;  // in quotes, or a block scalar
  std::vector<Node> items;
  std::vector<NodeEntry> entries;  // in the order of the file

  bool IsPlainNull() const;  // null, Null, NULL, none, None, ~ or nothing, unquoted
  const NodeEntry* Find(std::string_view key) const;
};

struct NodeEntry {
  std::string key;
  Place place;
  Node value;
};

inline constexpr int kMaxDepth = 64;
inline constexpr size_t kMaxNodes = 50'000;
inline constexpr size_t kMaxBytes = 4 << 20;

// The root of the one document in `text`; a null scalar where it is empty. Nothing where it cannot
// be read: `out` says why.
std::optional<Node> ParseDocument(std::string_view text, const std::string& file, Diagnostics& out);

}  // namespace am::recipe

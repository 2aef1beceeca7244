// document: YAML text as a tree of nodes that know where they stand. With node_builder.h the only
// files that see yaml-cpp.
//
// One document of plain maps, lists and scalars: anchors, aliases and merge keys are resolved here,
// within limits of depth and size (no billion laughs); duplicate keys, tags and syntax errors are
// refused with their place. Scalars stay text. After a syntax error whose cure is plain (a tab, a
// missing colon) the reading goes on as if it were mended, so that one run names all mistakes.
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
  bool broken = false;  // refused already: nothing more is said about it
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

struct Document {
  std::optional<Node> root;  // a null scalar where the text is empty
  // Lines whose syntax was refused: what else seems wrong there is no news.
  std::vector<int> refused_lines;
  // The line at which the reading ended early; nothing is known of what follows.
  std::optional<int> ended;

  // True of places where what seems wrong may only follow from the syntax.
  bool Doubts(const Place& place) const;
};

// As much of `text` as can be read; `out` says what cannot.
Document ReadDocument(std::string_view text, const std::string& file, Diagnostics& out);

// The root of the one document in `text`; nothing where `out` has an error.
std::optional<Node> ParseDocument(std::string_view text, const std::string& file, Diagnostics& out);

}  // namespace am::recipe

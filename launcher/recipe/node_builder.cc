#include "launcher/recipe/node_builder.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

namespace am::recipe {
namespace {

size_t CountNodes(const Node& node) {
  size_t count = 1;
  for (const Node& item : node.items) count += CountNodes(item);
  for (const NodeEntry& entry : node.entries) count += CountNodes(entry.value);
  return count;
}

int DepthOf(const Node& node) {
  int depth = 0;
  for (const Node& item : node.items) depth = std::max(depth, DepthOf(item));
  for (const NodeEntry& entry : node.entries) depth = std::max(depth, DepthOf(entry.value));
  return depth + 1;
}

[[noreturn]] void RefuseDepth(Place place) {
  throw Refusal{Refusal::Kind::kLimit, std::move(place),
                absl::StrCat("nested deeper than ", kMaxDepth, " levels"),
                "no recipe is; is a bracket missing?"};
}

// A value that was refused already, so that nothing more is said about it.
Node Broken(Place place) { return {.place = std::move(place), .broken = true}; }

}  // namespace

std::optional<Node> NodeBuilder::TakeRoot() {
  while (!open_.empty()) Close();
  return std::move(root_);
}

void NodeBuilder::OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) {
  // Written as a word, or nothing at all; then the mark is that of whatever comes next.
  std::string_view text = lines_.text();
  text.remove_prefix(lines_.Offset(mark.line + 1, mark.column + 1));
  for (std::string_view word : {"~", "null", "Null", "NULL"}) {
    if (text.starts_with(word)) {
      return Add(Node{.place = At(mark), .text = std::string(word)}, anchor);
    }
  }
  bool value = !open_.empty() && open_.back().key;
  Add(Node{.place = value ? open_.back().key->place : At(mark)}, anchor);
}

void NodeBuilder::OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                           const std::string& text) {
  CheckTag(mark, tag);
  if (tag == "!") CheckQuote(mark);
  Add(Node{.place = At(mark), .text = text, .quoted = tag == "!"}, anchor);
}

void NodeBuilder::OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) {
  auto found = anchors_.find(anchor);
  if (found == anchors_.end()) {
    Report(At(mark), PathTo(""), "an alias to the map or list that it stands in",
           "write the values out");
    return Add(Broken(At(mark)), 0);
  }
  // A copy, charged in full: nested aliases cannot grow beyond the limits.
  nodes_ += CountNodes(found->second);
  if (DepthOf(found->second) + static_cast<int>(open_.size()) > kMaxDepth) RefuseDepth(At(mark));
  Node copy = found->second;
  Add(std::move(copy), 0);
}

void NodeBuilder::OnSequenceStart(const YAML::Mark& mark, const std::string& tag,
                                  YAML::anchor_t anchor, YAML::EmitterStyle::value) {
  Open(mark, tag, anchor, Node::Kind::kList);
}

void NodeBuilder::OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                             YAML::EmitterStyle::value) {
  Open(mark, tag, anchor, Node::Kind::kMap);
}

Place NodeBuilder::At(const YAML::Mark& mark) const {
  return {file_, mark.line + 1, lines_.CharacterColumn(mark.line + 1, mark.column + 1)};
}

// The dotted name of a key in the innermost map; of the value that is being read where it is empty.
std::string NodeBuilder::PathTo(const std::string& key) const {
  std::string path;
  for (const OpenNode& node : open_) {
    if (node.key) absl::StrAppend(&path, path.empty() ? "" : ".", node.key->key);
  }
  if (!key.empty()) absl::StrAppend(&path, path.empty() ? "" : ".", key);
  return path;
}

void NodeBuilder::Report(const Place& place, std::string key, std::string message,
                         std::string hint) {
  Diagnostic diagnostic;
  diagnostic.place = place;
  diagnostic.key = std::move(key);
  diagnostic.message = std::move(message);
  diagnostic.hint = std::move(hint);
  out_.push_back(std::move(diagnostic));
}

// `!!int 3` and the like: values are typed by their keys, so a tag has nothing to say.
void NodeBuilder::CheckTag(const YAML::Mark& mark, const std::string& tag) {
  if (tag.empty() || tag == "?" || tag == "!") return;
  constexpr std::string_view kCore = "tag:yaml.org,2002:";
  std::string shown = tag.starts_with(kCore) ? "!!" + tag.substr(kCore.size()) : tag;
  bool key = !open_.empty() && open_.back().node.kind == Node::Kind::kMap && !open_.back().key;
  bool include = shown.find("include") != std::string::npos;
  Report(At(mark), key ? "" : PathTo(""), absl::StrCat("the tag ", shown, " is not supported"),
         include ? "write the values out: a recipe is one file"
                 : "remove it: a value has the type of its key");
}

// yaml-cpp takes the end of the file for the closing quote.
void NodeBuilder::CheckQuote(const YAML::Mark& mark) {
  size_t open = lines_.Offset(mark.line + 1, mark.column + 1);
  if (open >= lines_.text().size()) return;
  char quote = lines_.text()[open];
  if (quote != '"' && quote != '\'') return;
  std::optional<size_t> close = ClosingQuote(lines_.text(), open);
  if (!close) {
    throw Refusal{Refusal::Kind::kOpenQuote, At(mark), "a quote that is never closed",
                  quote == '"' ? "close it with \"" : "close it with '"};
  }
  int last = lines_.LineOf(*close);
  if (last > mark.line + 1) long_quote_ = {At(mark), last};
}

void NodeBuilder::Open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       Node::Kind kind) {
  CheckTag(mark, tag);
  if (static_cast<int>(open_.size()) >= kMaxDepth) RefuseDepth(At(mark));
  if (!open_.empty() && open_.back().node.kind == Node::Kind::kMap && !open_.back().key) {
    throw Refusal{Refusal::Kind::kComplexKey, At(mark),
                  kind == Node::Kind::kMap ? "a key is a map" : "a key is a list",
                  "use a plain name as key"};
  }
  open_.push_back({.node = {.kind = kind, .place = At(mark)}, .anchor = anchor});
}

void NodeBuilder::Close() {
  OpenNode done = std::move(open_.back());
  open_.pop_back();
  // A key without value, where the reading was ended.
  if (done.key) {
    done.key->value = Broken(done.key->place);
    done.node.entries.push_back(std::move(*done.key));
  }
  // `<<: *base`: keys that the map has of its own win, earlier merges win over later ones.
  for (Node& merged : done.merged) {
    for (NodeEntry& entry : merged.entries) {
      bool added = done.indices.emplace(entry.key, done.node.entries.size()).second;
      if (added) done.node.entries.push_back(std::move(entry));
    }
  }
  Add(std::move(done.node), done.anchor);
}

void NodeBuilder::Add(Node node, YAML::anchor_t anchor) {
  if (++nodes_ > kMaxNodes) {
    throw Refusal{Refusal::Kind::kLimit, node.place,
                  absl::StrCat("more than ", kMaxNodes, " values once aliases are written out"),
                  "remove the nested aliases"};
  }
  if (anchor != 0) anchors_[anchor] = node;
  if (open_.empty()) {
    root_ = std::move(node);
    return;
  }
  OpenNode& parent = open_.back();
  if (parent.node.kind == Node::Kind::kList) {
    parent.node.items.push_back(std::move(node));
  } else if (!parent.key) {
    AddKey(parent, std::move(node));
  } else if (parent.key->key == "<<") {
    AddMerge(parent, std::move(node));
    parent.key.reset();
  } else {
    parent.key->value = std::move(node);
    parent.node.entries.push_back(std::move(*parent.key));
    parent.key.reset();
  }
}

void NodeBuilder::AddKey(OpenNode& parent, Node node) {
  if (node.kind != Node::Kind::kScalar) {
    throw Refusal{Refusal::Kind::kComplexKey, node.place,
                  node.kind == Node::Kind::kMap ? "a key is a map" : "a key is a list",
                  "use a plain name as key"};
  }
  if (node.text == "<<" && !node.quoted) {
    if (parent.merge) {
      Report(node.place, PathTo(""),
             absl::StrCat("<< stands twice in this map, first at ", ToString(*parent.merge)),
             "merge several with one list: `<<: [*a, *b]`");
    }
    parent.merge = node.place;
  } else if (node.text.empty()) {
    Report(node.place, PathTo(""), "a key without a name", "write `key: value`");
  } else {
    auto [first, added] = parent.indices.emplace(node.text, parent.node.entries.size());
    if (!added) {
      const Place& place = parent.node.entries[first->second].place;
      Report(node.place, PathTo(node.text),
             absl::StrCat("stands twice in this map, first at ", ToString(place)),
             "remove one of the two");
    }
  }
  parent.key = NodeEntry{.key = std::move(node.text), .place = std::move(node.place)};
}

void NodeBuilder::AddMerge(OpenNode& parent, Node node) {
  if (node.broken) return;
  if (node.kind == Node::Kind::kMap) {
    parent.merged.push_back(std::move(node));
    return;
  }
  bool maps = node.kind == Node::Kind::kList &&
              std::all_of(node.items.begin(), node.items.end(), [](const Node& item) {
                return item.kind == Node::Kind::kMap || item.broken;
              });
  if (!maps) {
    Report(node.place, PathTo(""), "a merge key takes a map or a list of maps",
           "use `<<: *name` with an anchored map");
    return;
  }
  for (Node& item : node.items) {
    if (!item.broken) parent.merged.push_back(std::move(item));
  }
}

}  // namespace am::recipe

#include "launcher/recipe/document.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "launcher/recipe/scalar.h"
#include "launcher/recipe/secret.h"

namespace am::recipe {
namespace {

// Stops the parse at the first refusal; caught in ParseDocument.
struct Refusal {
  Place place;
  std::string key, message, hint;
};

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

// Builds the tree from yaml-cpp's events. Its own YAML::Node would keep neither duplicate keys nor
// quotes.
class Builder : public YAML::EventHandler {
 public:
  explicit Builder(std::string file) : file_(std::move(file)) {}

  std::optional<Node> TakeRoot() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Add(Node{.place = At(mark)}, anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    RefuseTag(mark, tag);
    Add(Node{.place = At(mark), .text = text, .quoted = tag == "!"}, anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      throw Refusal{At(mark), "", "an alias to the map or list that it stands in",
                    "write the values out"};
    }
    // A copy, charged in full: nested aliases cannot grow beyond the limits.
    nodes_ += CountNodes(found->second);
    if (DepthOf(found->second) + static_cast<int>(open_.size()) > kMaxDepth) RefuseDepth(mark);
    Node copy = found->second;
    Add(std::move(copy), 0);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, Node::Kind::kList);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, Node::Kind::kMap);
  }
  void OnMapEnd() override { Close(); }

 private:
  struct OpenNode {
    Node node;
    YAML::anchor_t anchor = 0;
    std::optional<NodeEntry> key;  // of a map: read, its value comes next
    std::vector<Node> merges;      // of a map: values of `<<`
  };

  Place At(const YAML::Mark& mark) const { return {file_, mark.line + 1, mark.column + 1}; }

  void RefuseTag(const YAML::Mark& mark, const std::string& tag) const {
    if (tag.empty() || tag == "?" || tag == "!") return;
    throw Refusal{At(mark), "", "the tag " + tag + " is not supported", "write a plain value"};
  }

  [[noreturn]] void RefuseDepth(const YAML::Mark& mark) const {
    throw Refusal{At(mark), "", "nested deeper than " + std::to_string(kMaxDepth) + " levels", ""};
  }

  void Open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            Node::Kind kind) {
    RefuseTag(mark, tag);
    if (static_cast<int>(open_.size()) >= kMaxDepth) RefuseDepth(mark);
    if (!open_.empty() && open_.back().node.kind == Node::Kind::kMap && !open_.back().key) {
      throw Refusal{At(mark), "", "a key is a list or a map", "use a plain name as key"};
    }
    open_.push_back({.node = {.kind = kind, .place = At(mark)}, .anchor = anchor});
  }

  void Close() {
    OpenNode done = std::move(open_.back());
    open_.pop_back();
    for (const Node& merged : done.merges) Merge(done.node, merged);
    Add(std::move(done.node), done.anchor);
  }

  // `<<: *base`: keys that the map has of its own win, earlier merges win over later ones.
  static void Merge(Node& into, const Node& from) {
    for (const NodeEntry& entry : from.entries) {
      if (!into.Find(entry.key)) into.entries.push_back(entry);
    }
  }

  void Add(Node node, YAML::anchor_t anchor) {
    if (++nodes_ > kMaxNodes) {
      throw Refusal{
          node.place, "",
          "more than " + std::to_string(kMaxNodes) + " values once aliases are written out",
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

  void AddKey(OpenNode& parent, Node node) {
    if (node.kind != Node::Kind::kScalar) {
      throw Refusal{node.place, "", "a key is a list or a map", "use a plain name as key"};
    }
    if (const NodeEntry* first = parent.node.Find(node.text)) {
      throw Refusal{
          node.place, node.text,
          "the key stands twice in this map, first at line " + std::to_string(first->place.line),
          "remove one of them"};
    }
    parent.key = NodeEntry{.key = node.text, .place = node.place};
  }

  void AddMerge(OpenNode& parent, Node node) {
    if (node.kind == Node::Kind::kMap) {
      parent.merges.push_back(std::move(node));
      return;
    }
    bool maps = node.kind == Node::Kind::kList &&
                std::all_of(node.items.begin(), node.items.end(),
                            [](const Node& item) { return item.kind == Node::Kind::kMap; });
    if (!maps) {
      throw Refusal{node.place, "<<", "a merge key takes a map or a list of maps",
                    "use `<<: *name` with an anchored map"};
    }
    for (Node& item : node.items) parent.merges.push_back(std::move(item));
  }

  std::string file_;
  std::vector<OpenNode> open_;
  std::map<YAML::anchor_t, Node> anchors_;
  std::optional<Node> root_;
  size_t nodes_ = 0;
};

// yaml-cpp's words for the commonest mistakes, in ours.
std::pair<std::string, std::string> Explain(const std::string& message, const std::string& line) {
  size_t indent = line.find_first_not_of(' ');
  if (indent != std::string::npos && line[indent] == '\t') {
    return {"a tab in the indentation", "indent with spaces"};
  }
  if (message.find("end of scalar") != std::string::npos ||
      message.find("EOF while scanning") != std::string::npos ||
      message.find("document indicator in scalar") != std::string::npos) {
    return {"a quote that is never closed", "close it, or double it to have it in the text"};
  }
  if (message == "illegal map value") {
    return {"a `: ` where no key can begin", "indent the line, or put the text in quotes"};
  }
  if (message == "end of map not found" || message == "end of sequence not found") {
    return {"a line that is indented like none of those above it",
            "indent it as far as its neighbours"};
  }
  if (message == "end of map flow not found" || message == "end of sequence flow not found") {
    return {"a bracket or brace that is never closed", "close it"};
  }
  return {message, ""};
}

}  // namespace

bool Node::IsPlainNull() const { return kind == Kind::kScalar && !quoted && IsNullWord(text); }

const NodeEntry* Node::Find(std::string_view key) const {
  for (const NodeEntry& entry : entries) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

std::string LineOf(std::string_view text, int line) {
  size_t begin = 0;
  for (int i = 1; i < line; ++i) {
    begin = text.find('\n', begin);
    if (begin == std::string_view::npos) return "";
    ++begin;
  }
  std::string found(text.substr(begin, text.find('\n', begin) - begin));
  if (!found.empty() && found.back() == '\r') found.pop_back();
  return found;
}

std::optional<Node> ParseDocument(std::string_view text, const std::string& file,
                                  Diagnostics& out) {
  if (text.size() > kMaxBytes) {
    out.push_back({.place = {file}, .message = "larger than 4 MiB", .hint = "is this a recipe?"});
    return std::nullopt;
  }
  if (size_t nul = text.find('\0'); nul != std::string_view::npos) {
    out.push_back({.place = {file}, .message = "a zero byte: this is no text file", .hint = ""});
    return std::nullopt;
  }
  Builder builder(file);
  auto refuse = [&](Refusal refusal) {
    std::string line = LineOf(text, refusal.place.line);
    out.push_back({.place = refusal.place,
                   .key = refusal.key,
                   .message = refusal.message,
                   .hint = refusal.hint,
                   .excerpt = HoldsSecret(line) ? "" : line});
    return std::nullopt;
  };
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) return Node{.place = {file, 1, 1}};
    std::optional<Node> root = builder.TakeRoot();
    Builder second(file);
    if (parser.HandleNextDocument(second)) {
      std::optional<Node> extra = second.TakeRoot();
      return refuse({extra ? extra->place : Place{file}, "", "a second document begins here",
                     "keep one recipe a file"});
    }
    if (!root) return Node{.place = {file, 1, 1}};
    return root;
  } catch (const YAML::Exception& error) {
    Place place{file, error.mark.line + 1, error.mark.column + 1};
    if (error.mark.is_null()) place.line = place.column = 0;
    auto [message, hint] = Explain(error.msg, LineOf(text, place.line));
    return refuse({place, "", message, hint});
  } catch (const Refusal& refusal) {
    return refuse(refusal);
  }
}

}  // namespace am::recipe

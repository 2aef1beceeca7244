#include "launcher/recipe/document.h"

#include <absl/strings/str_cat.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "launcher/recipe/scalar.h"
#include "launcher/recipe/secret.h"
#include "launcher/recipe/syntax.h"

namespace am::recipe {
namespace {

constexpr char kComplexKey[] = "a key is a list or a map";

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
  Builder(std::string file, const LineIndex& lines) : file_(std::move(file)), lines_(lines) {}

  std::optional<Node> TakeRoot() { return std::move(root_); }
  // The last quoted text that runs over several lines, and the line that it ends in.
  const std::optional<std::pair<Place, int>>& long_quote() const { return long_quote_; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Add(Node{.place = At(mark)}, anchor);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override {
    RefuseTag(mark, tag);
    if (tag == "!") CheckQuote(mark);
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

  Place At(const YAML::Mark& mark) const {
    return {file_, mark.line + 1, lines_.CharacterColumn(mark.line + 1, mark.column + 1)};
  }

  std::string PathTo(const std::string& key) const {
    std::string path;
    for (const OpenNode& node : open_) {
      if (node.key) path += node.key->key + ".";
    }
    return path + key;
  }

  // yaml-cpp takes the end of the file for the closing quote.
  void CheckQuote(const YAML::Mark& mark) {
    size_t open = lines_.Offset(mark.line + 1, mark.column + 1);
    if (open >= lines_.text().size()) return;
    char quote = lines_.text()[open];
    if (quote != '"' && quote != '\'') return;
    std::optional<size_t> close = ClosingQuote(lines_.text(), open);
    if (!close) {
      throw Refusal{At(mark), "", "a quote that is never closed",
                    quote == '"' ? "close it with \"" : "close it with '"};
    }
    int last = lines_.LineOf(*close);
    if (last > mark.line + 1) long_quote_ = {At(mark), last};
  }

  void RefuseTag(const YAML::Mark& mark, const std::string& tag) const {
    if (tag.empty() || tag == "?" || tag == "!") return;
    throw Refusal{At(mark), "", absl::StrCat("the tag ", tag, " is not supported"),
                  "write a plain value"};
  }

  [[noreturn]] void RefuseDepth(const YAML::Mark& mark) const {
    throw Refusal{At(mark), "", absl::StrCat("nested deeper than ", kMaxDepth, " levels"), ""};
  }

  void Open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            Node::Kind kind) {
    RefuseTag(mark, tag);
    if (static_cast<int>(open_.size()) >= kMaxDepth) RefuseDepth(mark);
    if (!open_.empty() && open_.back().node.kind == Node::Kind::kMap && !open_.back().key) {
      throw Refusal{At(mark), "", kComplexKey, "use a plain name as key"};
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
      throw Refusal{node.place, "",
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

  void AddKey(OpenNode& parent, Node node) {
    if (node.kind != Node::Kind::kScalar) {
      throw Refusal{node.place, "", kComplexKey, "use a plain name as key"};
    }
    if (const NodeEntry* first = parent.node.Find(node.text)) {
      throw Refusal{node.place, PathTo(node.text),
                    absl::StrCat("stands twice in this map, first at ", ToString(first->place)),
                    "remove one of the two"};
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
  const LineIndex& lines_;
  std::optional<std::pair<Place, int>> long_quote_;
  std::vector<OpenNode> open_;
  std::map<YAML::anchor_t, Node> anchors_;
  std::optional<Node> root_;
  size_t nodes_ = 0;
};

std::nullopt_t Unreadable(const std::string& file, std::string message, std::string hint,
                          Diagnostics& out) {
  Diagnostic diagnostic;
  diagnostic.place.file = file;
  diagnostic.message = std::move(message);
  diagnostic.hint = std::move(hint);
  out.push_back(std::move(diagnostic));
  return std::nullopt;
}

}  // namespace

bool Node::IsPlainNull() const { return kind == Kind::kScalar && !quoted && IsNullWord(text); }

const NodeEntry* Node::Find(std::string_view key) const {
  for (const NodeEntry& entry : entries) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

std::optional<Node> ParseDocument(std::string_view text, const std::string& file,
                                  Diagnostics& out) {
  if (text.size() > kMaxBytes) {
    return Unreadable(file, "larger than 4 MiB", "is this a recipe?", out);
  }
  if (text.find('\0') != std::string_view::npos) {
    return Unreadable(file, "a zero byte: this is no text file", "name the YAML file of a recipe",
                      out);
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  LineIndex lines(text);
  if (std::optional<size_t> invalid = InvalidUtf8(text)) {
    int line = lines.LineOf(*invalid);
    int column = static_cast<int>(*invalid - lines.Offset(line, 1)) + 1;
    Unreadable(file, "a byte that is not UTF-8", "save the file as UTF-8", out);
    out.back().place.line = line;
    out.back().place.column = lines.CharacterColumn(line, column);
    return std::nullopt;
  }
  Builder builder(file, lines);
  auto refuse = [&](const Refusal& refusal) {
    std::string line = lines.Line(refusal.place.line);
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
    Builder second(file, lines);
    if (parser.HandleNextDocument(second)) {
      std::optional<Node> extra = second.TakeRoot();
      return refuse({extra ? extra->place : Place{file}, "", "a second document begins here",
                     "keep one recipe a file"});
    }
    if (!root) return Node{.place = {file, 1, 1}};
    return root;
  } catch (const YAML::Exception& error) {
    bool somewhere = error.mark.is_null() || (error.mark.line == 0 && error.mark.column == 0);
    int line = somewhere ? lines.LineOf(text.size()) : error.mark.line + 1;
    if (builder.long_quote() && builder.long_quote()->second >= line) {
      return refuse(
          {builder.long_quote()->first, "",
           absl::StrCat("a quote that is closed only on line ", builder.long_quote()->second),
           "close it on its own line"});
    }
    SyntaxError found =
        ExplainSyntax(lines, {line, somewhere ? 1 : error.mark.column + 1, error.msg, ""});
    return refuse({{file, found.line, lines.CharacterColumn(found.line, found.column)},
                   "",
                   found.message,
                   found.hint});
  } catch (const Refusal& refusal) {
    // What is taken for a key may be a bracket that is never closed.
    if (std::optional<SyntaxError> open = FindOpenBracket(lines, lines.LineOf(text.size()));
        open && refusal.key.empty() && refusal.message == kComplexKey) {
      return refuse({{file, open->line, lines.CharacterColumn(open->line, open->column)},
                     "",
                     open->message,
                     open->hint});
    }
    return refuse(refusal);
  }
}

}  // namespace am::recipe

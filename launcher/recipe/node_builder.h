// NodeBuilder: yaml-cpp's events become nodes with places. Its own YAML::Node would keep neither
// duplicate keys nor quotes.
//
// What is wrong with one value is reported and the reading goes on; what leaves no sense in the
// rest (a bomb of aliases, a quote without end) is thrown as a Refusal. Used by document.cc alone.
#pragma once

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/mark.h>

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "launcher/recipe/document.h"
#include "launcher/recipe/syntax.h"

namespace am::recipe {

// Ends the reading.
struct Refusal {
  enum class Kind { kLimit, kComplexKey, kOpenQuote };
  Kind kind = Kind::kLimit;
  Place place;
  std::string message, hint;
};

class NodeBuilder : public YAML::EventHandler {
 public:
  NodeBuilder(std::string file, const LineIndex& lines, Diagnostics& out)
      : file_(std::move(file)), lines_(lines), out_(out) {}

  // What was read; with the maps and lists that are still open where the reading was ended.
  std::optional<Node> TakeRoot();
  // The last quoted text that runs over several lines, and the line that it ends in.
  const std::optional<std::pair<Place, int>>& long_quote() const { return long_quote_; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override;
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override;
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& text) override;
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override;
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override;
  void OnMapEnd() override { Close(); }

 private:
  struct OpenNode {
    Node node;
    YAML::anchor_t anchor = 0;
    std::optional<NodeEntry> key;                     // of a map: read, its value comes next
    std::unordered_map<std::string, size_t> indices;  // of a map: its entries by key
    std::optional<Place> merge;                       // of a map: its `<<`
    std::vector<Node> merged;                         // and what that names
  };

  Place At(const YAML::Mark& mark) const;
  std::string PathTo(const std::string& key) const;
  void Report(const Place& place, std::string key, std::string message, std::string hint);
  void CheckTag(const YAML::Mark& mark, const std::string& tag);
  void CheckQuote(const YAML::Mark& mark);
  void Open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Node::Kind kind);
  void Close();
  void Add(Node node, YAML::anchor_t anchor);
  void AddKey(OpenNode& parent, Node node);
  void AddMerge(OpenNode& parent, Node node);

  std::string file_;
  const LineIndex& lines_;
  Diagnostics& out_;
  std::optional<std::pair<Place, int>> long_quote_;
  std::vector<OpenNode> open_;
  std::map<YAML::anchor_t, Node> anchors_;
  std::optional<Node> root_;
  size_t nodes_ = 0;
};

}  // namespace am::recipe

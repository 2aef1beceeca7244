#include "worker/text/byte_trie.h"

#include <algorithm>

namespace am::text {

// Breadth first over ranges of the sorted keys, so that the edges of a node lie together.
ByteTrie::ByteTrie(std::vector<std::pair<std::string_view, int32_t>> keys) {
  std::stable_sort(keys.begin(), keys.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  struct Range {
    size_t begin, end, depth;
  };
  nodes_.emplace_back();
  std::vector<Range> ranges = {{0, keys.size(), 0}};
  for (size_t node = 0; node < nodes_.size(); ++node) {
    auto [begin, end, depth] = ranges[node];
    while (begin < end && keys[begin].first.size() == depth) {
      if (depth > 0) nodes_[node].value = keys[begin].second;
      ++begin;
    }
    nodes_[node].first_edge = static_cast<uint32_t>(labels_.size());
    while (begin < end) {
      const auto label = static_cast<unsigned char>(keys[begin].first[depth]);
      size_t next = begin + 1;
      while (next < end && static_cast<unsigned char>(keys[next].first[depth]) == label) ++next;
      labels_.push_back(label);
      targets_.push_back(static_cast<uint32_t>(nodes_.size()));
      if (node == 0) root_[label] = static_cast<uint32_t>(nodes_.size());
      nodes_.emplace_back();
      ranges.push_back({begin, next, depth + 1});
      begin = next;
    }
    nodes_[node].edge_count = static_cast<uint32_t>(labels_.size()) - nodes_[node].first_edge;
  }
}

}  // namespace am::text

// ByteTrie: the longest of many byte strings that begins at a place, or all of them. Built once
// from a list.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace am::text {

class ByteTrie {
 public:
  ByteTrie() = default;
  // Values are not negative; of equal keys the last holds. Empty keys are left out.
  explicit ByteTrie(std::vector<std::pair<std::string_view, int32_t>> keys);

  bool empty() const { return nodes_.size() <= 1; }
  bool MayBegin(unsigned char byte) const { return !nodes_.empty() && root_[byte] != 0; }

  // Calls fn(length, value) for each key that is a prefix of `text`, shortest first.
  template <typename Fn>
  void ForEachPrefix(std::string_view text, Fn fn) const {
    if (nodes_.empty() || text.empty()) return;
    uint32_t node = root_[static_cast<unsigned char>(text[0])];
    for (size_t at = 1; node != 0; ++at) {
      if (nodes_[node].value >= 0) fn(at, nodes_[node].value);
      if (at == text.size()) return;
      node = Child(node, static_cast<unsigned char>(text[at]));
    }
  }

 private:
  struct Node {
    uint32_t first_edge = 0;
    uint32_t edge_count = 0;
    int32_t value = -1;
  };
  uint32_t Child(uint32_t node, unsigned char byte) const {
    const Node& n = nodes_[node];
    uint32_t low = n.first_edge, count = n.edge_count;
    while (count > 0) {
      const uint32_t half = count / 2;
      if (labels_[low + half] < byte) {
        low += half + 1;
        count -= half + 1;
      } else {
        count = half;
      }
    }
    return low < n.first_edge + n.edge_count && labels_[low] == byte ? targets_[low] : 0;
  }

  std::vector<Node> nodes_;  // 0 is the root
  std::vector<unsigned char> labels_;
  std::vector<uint32_t> targets_;
  uint32_t root_[256] = {};
};

}  // namespace am::text

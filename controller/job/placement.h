// Placement: on which nodes a job's ranks are, and what it asks for before it has one. Plain data.
#pragma once

#include <string>
#include <vector>

namespace am::controller {

// A share of a node: `slots` are the GPUs (or CPU slots) that the ranks get, in the order of their
// local ranks.
struct NodeShare {
  std::string node;
  std::vector<int> slots;
  bool operator==(const NodeShare&) const = default;
};

// Ranks are counted through it: those of the first share are 0, 1, …
using Placement = std::vector<NodeShare>;

struct Demand {
  int nodes = 1;
  int ranks_per_node = 1;
  int segment_nodes = 1;  // nodes that must lie in one NVLink domain; divides `nodes`
  bool gpus = false;      // on GPUs; else on CPU slots
  bool operator==(const Demand&) const = default;
};

// Index of the share that holds the rank.
inline int ShareOfRank(const Placement& placement, int rank) {
  int share = 0;
  for (const NodeShare& part : placement) {
    if (rank < static_cast<int>(part.slots.size())) break;
    rank -= static_cast<int>(part.slots.size());
    ++share;
  }
  return share;
}

}  // namespace am::controller

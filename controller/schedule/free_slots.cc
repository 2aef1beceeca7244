#include "controller/schedule/free_slots.h"

#include <algorithm>

namespace am::controller {

FreeSlots::FreeSlots(const std::vector<NodeView>& nodes) {
  for (const NodeView& view : nodes) {
    if (!view.usable) continue;
    // A node whose domain is not known shares it with nobody.
    std::string domain = view.domain.empty() ? "node " + view.name : view.domain;
    std::vector<Node>& members = domains_[domain];
    places_[view.name] = {domain, members.size()};
    members.push_back({.name = view.name,
                       .gpus = std::vector<bool>(static_cast<size_t>(view.gpus), true),
                       .cpus = std::vector<bool>(static_cast<size_t>(view.cpu_slots), true),
                       .free_gpus = view.gpus,
                       .free_cpus = view.cpu_slots});
  }
}

void FreeSlots::Take(const Demand& demand, const Placement& placement) {
  Set(demand, placement, false);
}
void FreeSlots::GiveBack(const Demand& demand, const Placement& placement) {
  Set(demand, placement, true);
}

void FreeSlots::Set(const Demand& demand, const Placement& placement, bool free) {
  for (const NodeShare& share : placement) {
    auto place = places_.find(share.node);
    if (place == places_.end()) continue;  // not usable, so not ours to give
    Node& node = domains_[place->second.first][place->second.second];
    std::vector<bool>& slots = demand.gpus ? node.gpus : node.cpus;
    int& count = demand.gpus ? node.free_gpus : node.free_cpus;
    for (int slot : share.slots) {
      if (slot < 0 || slot >= static_cast<int>(slots.size()) || slots[slot] == free) continue;
      slots[slot] = free;
      count += free ? 1 : -1;
    }
  }
}

int FreeSlots::NodesWithRoom(const Demand& demand) const {
  int count = 0;
  for (const auto& [name, nodes] : domains_) {
    count += static_cast<int>(std::ranges::count_if(
        nodes, [&](const Node& node) { return node.Free(demand.gpus) >= demand.ranks_per_node; }));
  }
  return count;
}

std::optional<Placement> FreeSlots::Place(const Demand& demand) const {
  struct Domain {
    std::vector<const Node*> nodes;  // with room, the fullest first
    int usable = 0;                  // of them, in whole segments
  };
  std::vector<Domain> domains;
  for (const auto& [name, members] : domains_) {
    Domain domain;
    for (const Node& node : members) {
      if (node.Free(demand.gpus) >= demand.ranks_per_node) domain.nodes.push_back(&node);
    }
    std::ranges::stable_sort(domain.nodes, {},
                             [&](const Node* node) { return node->Free(demand.gpus); });
    int size = static_cast<int>(domain.nodes.size());
    domain.usable = size - size % demand.segment_nodes;
    if (domain.usable > 0) domains.push_back(std::move(domain));
  }
  Placement placement;
  int missing = demand.nodes;
  while (missing > 0) {
    // The smallest domain that holds all that is missing; else the largest, to need few.
    auto better = [&](const Domain& a, const Domain& b) {
      bool fits_a = a.usable >= missing, fits_b = b.usable >= missing;
      if (fits_a != fits_b) return fits_a;
      if (!fits_a) return a.usable > b.usable;
      auto left = [&](const Domain& domain) { return domain.nodes.front()->Free(demand.gpus); };
      return std::pair(a.nodes.size(), left(a)) < std::pair(b.nodes.size(), left(b));
    };
    auto best = std::ranges::min_element(domains, better);
    if (best == domains.end() || best->usable == 0) return std::nullopt;
    int take = std::min(missing, best->usable);
    for (int i = 0; i < take; ++i) {
      const Node& node = *best->nodes[static_cast<size_t>(i)];
      const std::vector<bool>& free = demand.gpus ? node.gpus : node.cpus;
      NodeShare share{.node = node.name};
      for (int slot = 0; static_cast<int>(share.slots.size()) < demand.ranks_per_node; ++slot) {
        if (free[static_cast<size_t>(slot)]) share.slots.push_back(slot);
      }
      placement.push_back(std::move(share));
    }
    missing -= take;
    best->usable = 0;
  }
  return placement;
}

}  // namespace am::controller

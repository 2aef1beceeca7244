#include "controller/daemon/node_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace am::controller {
namespace {

constexpr size_t kFaultsToQuarantine = 3;
constexpr Duration kFaultWindow = std::chrono::minutes(10);

}  // namespace

NodeState NodeTable::Node::state(TimePoint now) const {
  if (connected && !silent) return NodeState::kUp;
  return now < away_since + kAgentPatience ? NodeState::kSilent : NodeState::kLost;
}

NodeTable::Node* NodeTable::Find(const std::string& name) {
  auto found = nodes_.find(name);
  return found == nodes_.end() ? nullptr : &found->second;
}

std::vector<NodeView> NodeTable::Views() const {
  std::vector<NodeView> views;
  for (const auto& [name, node] : nodes_) {
    if (!node.known) continue;
    views.push_back({.name = name,
                     .domain = node.hello.nvlink_domain,
                     .gpus = node.hello.gpus,
                     .cpu_slots = node.hello.cpu_slots,
                     .usable = node.usable()});
  }
  return views;
}

bool NodeTable::CountFault(const std::string& name, const std::string& job, TimePoint now) {
  Node* node = Find(name);
  if (node == nullptr || !node->quarantined.empty()) return false;
  node->faults.emplace_back(now, job);
  while (node->faults.front().first + kFaultWindow <= now) node->faults.pop_front();
  bool several =
      std::ranges::any_of(node->faults, [&](const auto& fault) { return fault.second != job; });
  if (node->faults.size() < kFaultsToQuarantine || !several) return false;
  node->quarantined =
      absl::StrCat(node->faults.size(), " ranks of several jobs failed on it within ",
                   kFaultWindow / std::chrono::minutes(1), " minutes");
  return true;
}

}  // namespace am::controller

#include "controller/job/observation.h"

#include <algorithm>

namespace am::controller {
namespace {

ObservedNode* FindNode(Observed& seen, const std::string& name) {
  auto found = std::ranges::find(seen.nodes, name, &ObservedNode::name);
  return found == seen.nodes.end() ? nullptr : &*found;
}

// One overload a report; each sees only reports of the current attempt.
struct Fold {
  TimePoint now;
  Observed& seen;

  void operator()(const AgentConnected& report) {
    ObservedNode& node = *FindNode(seen, report.node);
    node.connected = true;
    node.came_back = true;
    node.knows = report.knows == seen.attempt;
    node.lost_at.reset();
  }
  void operator()(const AgentLost& report) {
    ObservedNode& node = *FindNode(seen, report.node);
    if (!node.connected) return;
    node.connected = false;
    node.lost_at = now;
    node.lost_message = report.message;
  }
  void operator()(const StartFailed& report) { seen.start_failed = report.message; }
  void operator()(const StoreListening& report) { seen.store_address = report.address; }
  void operator()(const RankStarted& report) {
    ObservedRank& rank = Rank(report.rank);
    if (rank.state == ObservedRank::State::kUnknown) rank.state = ObservedRank::State::kStarted;
    rank.log_path = report.log_path;
    rank.pid = report.pid;
  }
  void operator()(const RankReady& report) {
    Rank(report.rank).ready = true;
    seen.any_ready = true;
    if (!report.restored_from.empty()) seen.restored_from = report.restored_from;
  }
  void operator()(const RankStepped& report) { seen.step = std::max(seen.step, report.step); }
  void operator()(const CheckpointDone& report) { seen.checkpoint = report.path; }
  void operator()(const RankFailed& report) {
    Rank(report.rank).failed_kind = report.kind;
    Rank(report.rank).failed_message = report.message;
  }
  void operator()(const RankExited& report) {
    ObservedRank& rank = Rank(report.rank);
    if (rank.state == ObservedRank::State::kExited) return;
    rank.state = ObservedRank::State::kExited;
    rank.exit = report.exit;
    rank.killed_because = report.killed_because;
    rank.last_lines = report.last_lines;
    if (!report.log_path.empty()) rank.log_path = report.log_path;
    rank.exited_at = now;
    rank.exit_order = ++seen.exits;
  }
  void operator()(const AttemptEmpty& report) {
    ObservedNode& node = *FindNode(seen, report.node);
    if (node.empty) return;
    node.empty = true;
    seen.unkillable_pids.insert(seen.unkillable_pids.end(), report.unkillable_pids.begin(),
                                report.unkillable_pids.end());
  }

  ObservedRank& Rank(int rank) { return seen.ranks[static_cast<size_t>(rank)]; }
};

}  // namespace

void BeginAttempt(int64_t attempt, int world_size, const Placement& placement, Observed& observed) {
  observed = Observed{.checkpoint = observed.checkpoint,
                      .attempt = attempt,
                      .ranks = std::vector<ObservedRank>(static_cast<size_t>(world_size))};
  for (const NodeShare& share : placement) observed.nodes.push_back({.name = share.node});
}

bool Apply(const Observation& observation, TimePoint now, Observed& observed) {
  bool current = std::visit(
      [&](const auto& report) {
        if constexpr (requires { report.attempt; }) {
          if (report.attempt != observed.attempt) return false;
        }
        if constexpr (requires { report.rank; }) {
          if (report.rank < 0 || report.rank >= static_cast<int>(observed.ranks.size())) {
            return false;
          }
        }
        if constexpr (requires { report.node; }) return FindNode(observed, report.node) != nullptr;
        return true;
      },
      observation);
  if (current) std::visit(Fold{now, observed}, observation);
  return current;
}

}  // namespace am::controller

#include "controller/job/observation.h"

#include <algorithm>

namespace am::controller {
namespace {

// One overload a report; each sees only reports of the current attempt.
struct Fold {
  TimePoint now;
  Observed& seen;

  void operator()(const AgentConnected&) {
    seen.agent_connected = true;
    seen.agent_lost_at.reset();
  }
  void operator()(const AgentLost&) {
    seen.agent_connected = false;
    seen.agent_lost_at = now;
  }
  void operator()(const StartFailed& report) { seen.start_failed = report.message; }
  void operator()(const StoreListening& report) { seen.store_address = report.address; }
  void operator()(const RankStarted& report) {
    ObservedRank& rank = Rank(report.rank);
    if (rank.state == ObservedRank::State::kUnknown) rank.state = ObservedRank::State::kStarted;
    rank.log_path = report.log_path;
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
    seen.empty = true;
    seen.unkillable_pids = report.unkillable_pids;
  }

  ObservedRank& Rank(int rank) { return seen.ranks[static_cast<size_t>(rank)]; }
};

}  // namespace

void BeginAttempt(int64_t attempt, int world_size, Observed& observed) {
  observed = Observed{.agent_connected = observed.agent_connected,
                      .agent_lost_at = observed.agent_lost_at,
                      .checkpoint = observed.checkpoint,
                      .attempt = attempt,
                      .ranks = std::vector<ObservedRank>(static_cast<size_t>(world_size))};
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
        return true;
      },
      observation);
  if (current) std::visit(Fold{now, observed}, observation);
  return current;
}

}  // namespace am::controller

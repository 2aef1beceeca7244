// Reconcile: what to do about a job, given what has been seen of it. Pure and total: every (phase,
// observation) pair has a row in its table test.
//
// The driver (controller/backend/job_driver.h) calls it after every observation and when `wake_at`
// comes, takes the new status over, and carries the actions out. Calling it again with the same
// picture yields no action: what has been sent is in the status.
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "controller/job/job.h"
#include "controller/job/observation.h"

namespace am::controller {

// ---- effects, as values ----

// Each for every node of the placement, or for `node` alone: one that came back and may have missed
// it. Repeating any of them is harmless.
struct StartRanks {
  int64_t attempt = 0;
  bool resume_own_checkpoint = false;
  std::string node;
};
struct SendRendezvous {
  int64_t attempt = 0;
  std::string address;
  std::string node;
};
struct LeaveRanks {
  int64_t attempt = 0;
  Duration grace{};
  std::string node;
};
struct KillRanks {
  int64_t attempt = 0;
  std::string because;
  std::string node;
};
// Something the user is told.
struct Announce {
  enum class Level { kInfo, kWarning, kError };
  Level level = Level::kInfo;
  std::string text;
};

using Action = std::variant<StartRanks, SendRendezvous, LeaveRanks, KillRanks, Announce>;

struct Decision {
  JobStatus status;
  std::vector<Action> actions;
  std::optional<TimePoint> wake_at;
};

// How long an agent that was lost may come back before its node counts as lost.
inline constexpr Duration kAgentPatience = std::chrono::seconds(10);

Decision Reconcile(const Job& job, const Observed& observed, TimePoint now);

}  // namespace am::controller

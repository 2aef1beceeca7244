// What the controller has seen: reports of the agent, folded into one picture of the current
// attempt.
//
// The server translates messages into Observations and posts them to the loop, which folds them in
// with Apply(). A report of another attempt than the current one is void and changes nothing: that
// is the fence.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/clock.h"
#include "common/process.h"
#include "controller/job/placement.h"

namespace am::controller {

// ---- reports ----

// Of a node of the placement. What was sent over its last stream may be lost.
struct AgentConnected {
  std::string node;
  int64_t knows = 0;  // the attempt of this job that it knows of; 0: none
};
struct AgentLost {
  std::string node;
  std::string message;
};
struct StartFailed {
  int64_t attempt = 0;
  std::string message;
};
struct StoreListening {
  int64_t attempt = 0;
  std::string address;  // host:port, the host as the controller sees it
};
struct RankStarted {
  int64_t attempt = 0;
  int rank = 0;
  int64_t pid = 0;
  std::string log_path;
};
struct RankReady {
  int64_t attempt = 0;
  int rank = 0;
  int64_t step = 0;
  std::string restored_from;
};
struct RankStepped {
  int64_t attempt = 0;
  int64_t step = 0;
};
struct CheckpointDone {
  int64_t attempt = 0;
  int64_t step = 0;
  std::string path;
};
struct RankFailed {  // it says so itself; its exit follows
  int64_t attempt = 0;
  int rank = 0;
  std::string kind;  // user, io, peer_lost, internal
  std::string message;
};
struct RankExited {
  int64_t attempt = 0;
  int rank = 0;
  ExitState exit;
  std::string killed_because;  // not empty: by us
  std::vector<std::string> last_lines;
  std::string log_path;
};
struct AttemptEmpty {  // on one node
  int64_t attempt = 0;
  std::vector<int64_t> unkillable_pids;
  std::string node;
};

using Observation =
    std::variant<AgentConnected, AgentLost, StartFailed, StoreListening, RankStarted, RankReady,
                 RankStepped, CheckpointDone, RankFailed, RankExited, AttemptEmpty>;

// ---- the picture ----

struct ObservedRank {
  enum class State { kUnknown, kStarted, kExited };
  State state = State::kUnknown;
  bool ready = false;       // or was, before it exited
  std::string failed_kind;  // of its `failed` event
  std::string failed_message;
  ExitState exit;  // kExited
  std::string killed_because;
  std::vector<std::string> last_lines;
  std::string log_path;
  int64_t pid = 0;
  TimePoint exited_at;
  int exit_order = 0;  // counts from 1
};

struct ObservedNode {
  std::string name;
  bool connected = true;
  std::optional<TimePoint> lost_at;  // not connected since
  std::string lost_message;
  bool came_back = false;  // and has not been told again yet what it may have missed
  bool knows = true;       // of the current attempt; its agent was started anew otherwise
  bool empty = false;      // verified: nothing of the attempt is left running there
};

struct Observed {
  // Of the job, whatever the attempt.
  std::string checkpoint;  // the last complete one that this job has written

  // Of the current attempt.
  int64_t attempt = 0;
  std::vector<ObservedNode> nodes;  // as placed
  std::vector<ObservedRank> ranks;
  std::optional<std::string> start_failed;
  std::string store_address;
  std::string restored_from;
  bool any_ready = false;
  int64_t step = 0;  // the highest finished step
  int exits = 0;
  std::vector<int64_t> unkillable_pids;
};

void BeginAttempt(int64_t attempt, int world_size, const Placement& placement, Observed& observed);

// False: it belongs to another attempt (or to a rank or node that the job does not have), and was
// dropped.
bool Apply(const Observation& observation, TimePoint now, Observed& observed);

}  // namespace am::controller

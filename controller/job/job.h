// Job: what is wanted (spec, stop request) and what is so (status). Plain data, owned by the
// controller's loop.
//
//                placed                 all ready            all ended well, verified empty
//   Pending ────────1────────▶ Starting ───2───▶ Running ──────────3──────────▶ Succeeded
//      ▲                          ▲                 │ 4 a rank was lost
//      │                          └──── 5 empty ────┴─▶ Restarting
//      │ 7 left (suspended)                         │ 6 asked to leave, or no way to go on
//      └──────────────────────────────── Stopping ◀─┘──▶ 8 Failed, Cancelled
//
// 4 and 6 happen in Starting too. 5 begins the next attempt. A job that was asked to leave is
// Pending again, and suspended: whoever asked may requeue it. A job whose node was lost is Pending
// without a placement, where another node may take its place (5 goes by way of 1). Reconcile
// (reconciler.h) makes every one of these steps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "common/process.h"
#include "controller/job/placement.h"

namespace am::controller {

struct RestartPolicy {
  int max_restarts = 3;       // over the whole job
  int no_progress_limit = 3;  // attempts in a row that got no further than one before them
  Duration grace = std::chrono::seconds(60);  // to save and leave
  bool other_nodes = false;  // a lost node may be replaced: the job waits for another placement
};

struct JobSpec {
  std::string id;              // "am-" and ten of a–z, 2–7: a DNS label
  std::string rank_spec_json;  // for the agents: not read here
  int world_size = 1;
  RestartPolicy restart;
};

enum class JobPhase {
  kPending,
  kStarting,
  kRunning,
  kRestarting,
  kStopping,
  kSucceeded,
  kFailed,
  kCancelled,
};

// The user's wish that the job ends. A later one may only bring `leave_by` forward.
struct StopRequest {
  enum class Kind { kSuspend, kCancel };
  Kind kind = Kind::kSuspend;
  TimePoint leave_by;   // after this the ranks are killed
  std::string because;  // "SIGTERM"
  bool operator==(const StopRequest&) const = default;
};

enum class FailureKind {
  kUser,        // the recipe, the model or the data are wrong: trying again is of no use
  kRank,        // a rank gave up: internal error, I/O, any exit status
  kSignal,      // a rank ended by a signal
  kPeerLost,    // ranks lost a peer, and none of them says why
  kNotStarted,  // the ranks could not be started
  kAgentLost,   // the agent of a node is gone, or was started anew without its ranks
};

// Why an attempt ended badly: its root cause, the first failing rank, not those that went down with
// it.
struct Failure {
  FailureKind kind = FailureKind::kRank;
  int rank = -1;  // of the root cause; -1: no rank's
  ExitState exit;
  std::string message;  // what the rank said, or what could not be done
  std::vector<std::string> last_lines;
  std::string log_path;
  TimePoint at;  // when the controller learned of it
};

struct JobStatus {
  JobPhase phase = JobPhase::kPending;
  Placement placement;  // empty: none yet, or given back
  int64_t attempt = 0;  // counts from 1; what carries another number is void
  int restarts = 0;
  int attempts_without_progress = 0;
  int64_t best_step = 0;  // the highest step of the attempts before this one

  // Of the current attempt: what has been sent, so that it is sent once.
  bool rendezvous_sent = false;
  std::optional<TimePoint> leave_sent;  // with this deadline
  bool kill_sent = false;

  std::optional<Failure> failure;  // of the last attempt that failed
  std::string last_words;          // Failed: the sentence that says why it is final
  bool suspended = false;          // Pending, and meant to stay so
  bool saved = false;              // suspended after every rank had saved and left
};

struct Job {
  JobSpec spec;
  std::optional<StopRequest> stop;
  JobStatus status;
};

const char* Name(JobPhase phase);
bool IsTerminal(JobPhase phase);
// Nothing more will happen by itself: a terminal phase, or suspended.
bool IsFinished(const Job& job);

}  // namespace am::controller

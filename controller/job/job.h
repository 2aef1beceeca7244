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
//
// A spec never changes once the job has an id. Times of the steady clock hold in one process alone:
// job_json.h stores them as times of day.
#pragma once

#include <cstdint>
#include <map>
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
  // A node that was lost, or could not start its ranks, may be replaced: the job waits for another
  // placement.
  bool other_nodes = false;
  bool operator==(const RestartPolicy&) const = default;
};

struct JobSpec {
  std::string id;              // "am-" and ten of a–z, 2–7: a DNS label
  std::string rank_spec_json;  // for the agents: not read here
  int world_size = 1;
  RestartPolicy restart;

  // What a queue needs to know; `amctl run` has none.
  std::string name;  // for people
  std::string user;
  int priority = 0;  // higher first
  Demand demand;
  std::vector<std::string> after;      // ids: begin when these have succeeded
  std::optional<Duration> time_limit;  // of having slots, over all attempts; then it saves and ends
  std::string client_token;
  int64_t submitted_unix_ns = 0;

  // Where it came from, to be shown and planned again.
  std::string recipe_yaml;
  std::string recipe_file;
  std::string working_directory;
  std::map<std::string, std::string> environment;  // of the ranks
  std::string checkpoint_dir;
  int64_t total_steps = 0;  // 0: not known
  bool operator==(const JobSpec&) const = default;
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

// Somebody's wish that the job leaves its ranks' places. A later one may only bring `leave_by`
// forward, and take the place of a weaker kind.
struct StopRequest {
  enum class Kind {
    kSuspend,  // Pending afterwards
    kFail,     // Failed, with `because` as the last words: its time is over, what it needs failed
    kCancel,   // Cancelled
  };
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
  bool operator==(const Failure&) const;
};

struct JobStatus {
  JobPhase phase = JobPhase::kPending;
  Placement placement;  // empty: none yet, or given back; of a job that has ended, its last
  int64_t attempt = 0;  // counts from 1; what carries another number is void
  int restarts = 0;
  int attempts_without_progress = 0;
  int64_t best_step = 0;        // the highest step of the attempts before this one
  int64_t step = 0;             // the highest that was seen of the current attempt
  std::string checkpoint;       // the last complete one that this job has written
  int64_t started_unix_ns = 0;  // of the first attempt; 0: not yet
  int64_t placed_unix_ns = 0;   // where it is now
  int64_t ended_unix_ns = 0;    // 0: not yet

  // Of the current attempt: what has been sent, so that it is sent once.
  bool rendezvous_sent = false;
  std::optional<TimePoint> leave_sent;  // with this deadline
  bool kill_sent = false;

  std::optional<Failure> failure;  // of the last attempt that failed
  std::string last_words;          // Failed: the sentence that says why it is final
  bool suspended = false;          // Pending, and meant to stay so
  bool saved = false;              // suspended after every rank had saved and left
  bool operator==(const JobStatus&) const = default;
};

struct Job {
  JobSpec spec;
  std::optional<StopRequest> stop;
  JobStatus status;
  bool operator==(const Job&) const = default;
};

const char* Name(JobPhase phase);
const char* Name(FailureKind kind);  // "user", "rank", "signal", "peer_lost", …
bool IsTerminal(JobPhase phase);
// Nothing more will happen by itself: a terminal phase, or suspended.
bool IsFinished(const Job& job);

}  // namespace am::controller

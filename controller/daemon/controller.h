// Controller: every job, every node, the queue between them, and the store beneath. What
// am-controller runs on its loop; it decides nothing itself (Reconcile, Schedule do) and knows no
// wire (the services in controller/server translate).
//
//   API ──▶ Controller ──▶ JobDriver × n ──▶ Backend (the agents)
//            │   ▲  Schedule(view) on every change of queue or nodes
//            ▼   └── observations of agents
//          Store: one transaction a turn; replies, actions and events go out after it
//
// On the loop's thread alone. A request is answered through its callback, after the transaction
// that makes it true. After a restart the jobs are loaded, their nodes are unknown until their
// agents dial in again and say what runs, and the loop goes on from there.
//
// Where a transaction fails (the disk is full), requests are answered with the store's error: a job
// that was submitted is not there then; a cancel or a drain holds, and takes effect with the rest
// as soon as the store can take it. Until then nothing new is decided or sent.
//
// A job that waits or was preempted, or whose nodes were lost, goes on wherever there is room. Its
// time limit counts while it has slots, over all of its attempts; then it is asked to save and
// leave, and has failed: to requeue it would be to ignore the limit. One that fails without
// progress waits 5 s, 10 s, … at most 5 min for its next place.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/event_loop.h"
#include "common/random.h"
#include "controller/backend/backend.h"
#include "controller/backend/job_driver.h"
#include "controller/job/goodput.h"
#include "controller/schedule/schedule.h"
#include "controller/store/store.h"

namespace am::controller {

// A job as somebody asked for it; everything is checked and planned already (submit.h).
struct Order {
  JobSpec spec;  // without an id: the controller gives one
  std::string client_token;
};
struct Ordered {
  std::string id;
  bool existed = false;  // the token was known
};

// A node as its agent described it.
struct NodeHello {
  std::string name;
  std::string instance;  // another one: the agent was started anew
  std::string boot_id;
  std::string version;
  std::string nvlink_domain;
  int gpus = 0;
  int cpu_slots = 1;
  std::map<std::string, int64_t> attempts;  // job → the attempt that it knows of
};
// Of attempts that are not (or no longer) due there the node is told to kill what is left, and it
// gets nothing new before it has said that nothing is: AttemptEmpty.

// Silent: it has not said a word for agent_silence, or its stream has closed. Lost: that has lasted
// for kAgentPatience more; its jobs go elsewhere.
enum class NodeState { kUp, kSilent, kLost };
struct NodeStatus {
  NodeHello hello;
  NodeState state = NodeState::kUp;
  bool drained = false;
  std::string reason;       // of the drain
  std::string quarantined;  // not empty: why it gets nothing more, until it is undrained
  TimePoint last_heard;
  int free_slots = 0;
  std::vector<std::string> jobs;
};

struct JobReport {  // what the API shows of a job
  Job job;
  Observed observed;  // of a job that has ended: its ranks, step and checkpoint
  std::string why;    // Pending: what it waits for; Failed: the root cause
  Goodput goodput;
  std::string last_step_json;  // the last `step` event of rank 0
  int64_t started_unix_ns = 0;
  int64_t ended_unix_ns = 0;
};

class Controller {
 public:
  struct Options {
    std::map<std::string, Quota> quotas;
    Duration agent_silence = std::chrono::seconds(20);  // without a word: silent
    // After the start, until nodes that have not said hello do not count any more: a job that does
    // not fit those that have is refused from then on, and waits until then.
    Duration settle = kAgentPatience;
    std::function<std::string()> new_id = [] { return "am-" + RandomBase32(10); };
  };

  Controller(EventLoop& loop, Store& store, Backend& backend, Options options);

  // Takes up what the store has. Once, before anything else.
  absl::Status Load();

  // ---- requests ----
  void Submit(Order order, std::function<void(absl::StatusOr<Ordered>)> done);
  void Cancel(const std::string& id, std::optional<Duration> grace, std::string because,
              std::function<void(absl::StatusOr<JobReport>)> done);
  void Drain(const std::string& node, bool drained, std::string reason,
             std::function<void(absl::StatusOr<NodeStatus>)> done);
  // By id, or by a prefix of one job's alone. NotFound names the nearest.
  absl::StatusOr<JobReport> Find(const std::string& id);
  // By age. `ended_too`: behind the others, the newest thousand of those that have ended.
  std::vector<JobReport> Jobs(bool ended_too);
  std::vector<NodeStatus> Nodes() const;
  // Committed events are told to every watcher, in order. Returns what removes it.
  using EventCallback = std::function<void(const StoredEvent&)>;
  uint64_t Watch(EventCallback callback);
  void Unwatch(uint64_t id);

  // ---- from the agents ----
  void NodeConnected(NodeHello hello);
  void NodeHeard(const std::string& node);
  void NodeDisconnected(const std::string& node, std::string reason);
  void Observe(const std::string& job, const Observation& observation);
  void RankEvent(const std::string& job, int64_t attempt, int rank, const std::string& json);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace am::controller

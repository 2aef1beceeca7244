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

enum class NodeState { kUp, kSilent, kLost };
struct NodeStatus {
  NodeHello hello;
  NodeState state = NodeState::kUp;
  bool drained = false;
  std::string reason;  // of the drain
  TimePoint last_heard;
  int free_slots = 0;
  std::vector<std::string> jobs;
};

struct JobReport {  // what the API shows of a job
  Job job;
  Observed observed;      // empty for a job that ended before this process began
  std::string why;        // Pending: what it waits for; Failed: the root cause
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

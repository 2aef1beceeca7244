// World: a small cluster around the real Controller, on a clock that a test moves. Its agents keep
// their attempts when the controller goes away, dial in again and repeat what they have said; its
// store can be full, or end the controller right before or right after any transaction.
//
// It watches what no controller may do, whatever happens: give a slot to two live attempts, have
// two attempts of a job live, start an attempt twice, go on with a job that has ended.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "controller/daemon/controller.h"
#include "tests/fakes/fake_clock.h"

namespace am::controller {

// A store in memory with the faults of a real one.
class FaultyStore final : public Store {
 public:
  bool full = false;
  int64_t commits = 0;
  int64_t crash_at = 0;      // the number of the transaction that ends the controller; 0: none
  bool crash_after = false;  // when it is through; else before
  bool crashed = false;

  absl::StatusOr<StoredState> Load() override { return inner_->Load(); }
  absl::Status Commit(const Changes& changes) override;
  absl::StatusOr<std::optional<StoredJob>> Find(const std::string& id) override {
    return inner_->Find(id);
  }
  absl::StatusOr<std::optional<StoredJob>> FindByToken(const std::string& token) override {
    return inner_->FindByToken(token);
  }
  absl::StatusOr<std::vector<StoredJob>> Ended(int64_t limit) override {
    return inner_->Ended(limit);
  }
  absl::StatusOr<std::vector<StoredEvent>> Events(const std::string& job, int64_t after_seq,
                                                  int64_t limit) override {
    return inner_->Events(job, after_seq, limit);
  }
  absl::StatusOr<bool> HoldLease(const std::string& owner, int64_t now, int64_t ttl) override {
    return inner_->HoldLease(owner, now, ttl);
  }

 private:
  std::unique_ptr<Store> inner_ = MakeMemoryStore();
};

// What the ranks of a job do; by the job's name.
struct Script {
  int64_t steps = 4;  // one a second
  int64_t checkpoint_every = 2;
  std::map<int64_t, int64_t> dies_at;  // attempt → step at which its last rank is killed
  int user_error_at = -1;              // attempt that ends with a user error
  int64_t not_started = 0;             // so many attempts cannot be started
  bool deaf = false;                   // does not leave when asked
};

class World final : public Backend {
 public:
  explicit World(std::map<std::string, int> slots_of_nodes, Controller::Options options = {});
  ~World() override;

  FakeClock clock;
  FaultyStore store;
  std::map<std::string, Script> scripts;
  std::vector<std::string> sent;        // "start am-1/1 n1"
  std::vector<std::string> violations;  // of what no controller may do

  Controller& controller() { return *controller_; }
  bool up() const { return controller_ != nullptr; }

  // Everything that is due happens; then a second passes, in which the ranks make a step.
  void Settle();
  void Tick();
  void Run(int seconds);
  // Until every job has ended, at most for so long.
  bool RunToTheEnd(int at_most_seconds);

  // Accepted: the id; else the status.
  absl::StatusOr<std::string> Submit(JobSpec spec, const std::string& token = "");
  absl::StatusOr<JobReport> Cancel(const std::string& id,
                                   std::optional<Duration> grace = std::nullopt);
  absl::StatusOr<NodeStatus> Drain(const std::string& node, bool drained = true);
  JobReport Report(const std::string& id);
  JobPhase Phase(const std::string& id) { return Report(id).job.status.phase; }
  std::vector<std::string> Kinds(const std::string& id);  // of its events

  void KillController();
  void StartController();
  void CrashNode(const std::string& name);  // the agent and all its ranks are gone
  void BootNode(const std::string& name);   // it is there again, and dials
  void Unlink(const std::string& name);     // its stream ends; the ranks go on
  void Link(const std::string& name);       // it dials again
  bool linked(const std::string& name) const { return agents_.at(name).linked; }
  bool alive(const std::string& name) const { return agents_.at(name).alive; }
  void Freeze(const std::string& name, bool frozen) { agents_.at(name).frozen = frozen; }
  // Live attempts of the whole cluster, those on nodes without a stream as well.
  int live_attempts() const;
  void CheckEvents();  // of every job, against the rules; adds to violations

  // Backend: what is sent arrives at the next Settle(), where the stream still is.
  void Start(const JobSpec& spec, const Placement& placement, const StartRanks& action) override;
  void Rendezvous(const JobSpec& spec, const Placement& placement,
                  const SendRendezvous& action) override;
  void Leave(const JobSpec& spec, const Placement& placement, const LeaveRanks& action) override;
  void Kill(const JobSpec& spec, const Placement& placement, const KillRanks& action) override;
  void Forget(const std::string& job, int64_t attempt, const Placement& placement) override;

 private:
  using Key = std::pair<std::string, int64_t>;  // job, attempt
  struct Held {                                 // a node's share of an attempt
    std::vector<int> ranks;
    std::vector<int> slots;
    bool live = true;
    bool met = false;  // knows the rendezvous
    bool leaving = false;
    bool fenced = false;  // its node was away for so long that it may have been given up
    std::vector<Observation> said;
  };
  struct Agent {
    int slots = 0;
    int instance = 0;
    bool alive = true;
    bool linked = false;
    int away = 0;         // seconds without a stream, or frozen
    bool frozen = false;  // says nothing, hears nothing; its ranks go on
    std::map<Key, Held> held;
    std::deque<std::function<void()>> inbox;
    std::deque<std::function<void()>> unsaid;  // while it is frozen
    std::set<Key> started;                     // by this instance
  };
  struct Group {  // the ranks of an attempt, together
    std::string name;
    std::set<std::string> nodes;
    int world_size = 0;
    bool ready = false;
    bool broken = false;
    int64_t step = 0;
  };

  void Deliver(const std::string& node, std::function<void()> what);
  void ForShares(const Placement& placement, const std::string& only,
                 const std::function<void(const NodeShare&, int first_rank)>& call);
  void Say(const std::string& node, const Key& key, const Observation& observation);
  void Begin(const std::string& node, const Key& key, const std::string& name,
             const Placement& placement, const NodeShare& share, int first_rank, bool resume);
  void End(const std::string& node, const Key& key, int code, int signal, std::string because);
  void Step(const Key& key, Group& group);

  Controller::Options options_;
  EventLoop loop_{clock};
  std::unique_ptr<Controller> controller_;
  std::map<std::string, Agent> agents_;
  std::map<Key, Group> groups_;
  std::map<std::string, int64_t> saved_;  // job → step of its last checkpoint
  int ids_ = 0;
};

}  // namespace am::controller

// Outbox: all that a turn of the loop wants to be stored, done, answered and told, held back until
// the transaction that records it is through.
//
//   jobs' turns ──▶ Outbox ──Flush──▶ Store ──▶ then: effects to the Backend, replies, events
//
// It is the Backend that the jobs' drivers see. Where the store cannot take the transaction,
// everything stays, but for the replies: those who asked are told why. On the loop alone.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/clock.h"
#include "controller/backend/backend.h"
#include "controller/store/store.h"

namespace am::controller {

class Outbox final : public Backend {
 public:
  using Reply = std::function<void(const absl::Status&)>;
  using EventCallback = std::function<void(const StoredEvent&)>;

  Outbox(Store& store, Backend& backend, const Clock& clock)
      : store_(store), backend_(backend), clock_(clock) {}

  void set_last_seq(int64_t seq) { last_seq_ = seq; }

  // ---- to be stored ----
  void Put(StoredJob job);  // in place of what was put of it earlier in the turn
  void Put(StoredNode node);
  void Tell(const std::string& job, std::string kind, std::string text, std::string json = "");

  // ---- to be done afterwards ----
  void Answer(Reply reply) { replies_.push_back(std::move(reply)); }
  // Backend. The spec is the job's own and outlives the flush. Each node has an effect of its own.
  void Start(const JobSpec& spec, const Placement& placement, const StartRanks& action) override;
  void Rendezvous(const JobSpec& spec, const Placement& placement,
                  const SendRendezvous& action) override;
  void Leave(const JobSpec& spec, const Placement& placement, const LeaveRanks& action) override;
  void Kill(const JobSpec& spec, const Placement& placement, const KillRanks& action) override;
  void Forget(const std::string& job, int64_t attempt, const Placement& placement) override;
  // Of a job that need not be known any more.
  void KillVoid(const std::string& job, int64_t attempt, const std::string& node);

  // The node has dialled again: what was meant for it before is void, the reconciler says it again.
  void DropFor(const std::string& node);
  // As if the job had never been put: its submission could not be stored.
  void Withdraw(const std::string& job);

  absl::Status Flush();

  uint64_t Watch(EventCallback callback);
  void Unwatch(uint64_t id) { watchers_.erase(id); }

 private:
  struct Effect {
    std::string job;
    std::string node;
    std::function<void(Backend&)> carry_out;
  };
  template <class Action>
  using Call = void (Backend::*)(const JobSpec&, const Placement&, const Action&);
  template <class Action>
  void Add(Call<Action> call, const JobSpec& spec, const Placement& placement, Action action);
  void TellWatchers(const std::vector<StoredEvent>& events);

  Store& store_;
  Backend& backend_;
  const Clock& clock_;
  Changes changes_;
  std::vector<Effect> effects_;
  std::vector<Reply> replies_;
  std::map<uint64_t, EventCallback> watchers_;
  uint64_t next_watcher_ = 1;
  int64_t last_seq_ = 0;
};

}  // namespace am::controller

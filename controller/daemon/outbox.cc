#include "controller/daemon/outbox.h"

#include <algorithm>
#include <utility>

namespace am::controller {

void Outbox::Put(StoredJob job) {
  auto known = std::ranges::find(changes_.jobs, job.id, &StoredJob::id);
  if (known == changes_.jobs.end()) {
    changes_.jobs.push_back(std::move(job));
  } else {
    *known = std::move(job);
  }
}

void Outbox::Put(StoredNode node) {
  std::erase_if(changes_.nodes, [&](const StoredNode& other) { return other.name == node.name; });
  changes_.nodes.push_back(std::move(node));
}

void Outbox::Tell(const std::string& job, std::string kind, std::string text, std::string json) {
  changes_.events.push_back({.job = job,
                             .t_unix_ns = clock_.UnixNanos(),
                             .kind = std::move(kind),
                             .text = std::move(text),
                             .json = std::move(json)});
}

template <class Action>
void Outbox::Add(Call<Action> call, const JobSpec& spec, const Placement& placement,
                 Action action) {
  for (const NodeShare& share : placement) {
    if (!action.node.empty() && action.node != share.node) continue;
    Action own = action;
    own.node = share.node;
    effects_.push_back({spec.id, share.node, [call, &spec, placement, own](Backend& backend) {
                          (backend.*call)(spec, placement, own);
                        }});
  }
}

void Outbox::Start(const JobSpec& spec, const Placement& placement, const StartRanks& action) {
  Add(&Backend::Start, spec, placement, action);
}

void Outbox::Rendezvous(const JobSpec& spec, const Placement& placement,
                        const SendRendezvous& action) {
  Add(&Backend::Rendezvous, spec, placement, action);
}

void Outbox::Leave(const JobSpec& spec, const Placement& placement, const LeaveRanks& action) {
  Add(&Backend::Leave, spec, placement, action);
}

void Outbox::Kill(const JobSpec& spec, const Placement& placement, const KillRanks& action) {
  Add(&Backend::Kill, spec, placement, action);
}

void Outbox::Forget(const std::string& job, int64_t attempt, const Placement& placement) {
  for (const NodeShare& share : placement) {
    effects_.push_back({job, share.node, [job, attempt, share](Backend& backend) {
                          backend.Forget(job, attempt, {share});
                        }});
  }
}

void Outbox::KillVoid(const std::string& job, int64_t attempt, const std::string& node) {
  effects_.push_back(
      {job, node, [job, attempt, node](Backend& backend) {
         backend.Kill({.id = job}, {{.node = node}}, {attempt, "its attempt was given up", node});
       }});
}

void Outbox::DropFor(const std::string& node) {
  std::erase_if(effects_, [&](const Effect& effect) { return effect.node == node; });
}

void Outbox::Withdraw(const std::string& job) {
  std::erase_if(changes_.jobs, [&](const StoredJob& stored) { return stored.id == job; });
  std::erase_if(changes_.events, [&](const StoredEvent& event) { return event.job == job; });
  std::erase_if(effects_, [&](const Effect& effect) { return effect.job == job; });
}

absl::Status Outbox::Flush() {
  absl::Status status = changes_.empty() ? absl::OkStatus() : store_.Commit(changes_);
  std::vector<Reply> replies = std::exchange(replies_, {});
  if (!status.ok()) {
    for (const Reply& reply : replies) reply(status);
    return status;
  }
  std::vector<StoredEvent> events = std::exchange(changes_, {}).events;
  for (const Effect& effect : std::exchange(effects_, {})) effect.carry_out(backend_);
  for (const Reply& reply : replies) reply(status);
  TellWatchers(events);
  return status;
}

void Outbox::TellWatchers(const std::vector<StoredEvent>& events) {
  for (StoredEvent event : events) {
    event.seq = ++last_seq_;                                 // as the store has just given it
    std::map<uint64_t, EventCallback> watchers = watchers_;  // one may go while it is told
    for (const auto& [id, callback] : watchers) {
      if (watchers_.contains(id)) callback(event);
    }
  }
}

uint64_t Outbox::Watch(EventCallback callback) {
  watchers_[next_watcher_] = std::move(callback);
  return next_watcher_++;
}

}  // namespace am::controller

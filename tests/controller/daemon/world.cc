#include "tests/controller/daemon/world.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "controller/job/job_json.h"

namespace am::controller {

absl::Status FaultyStore::Commit(const Changes& changes) {
  if (crashed) return absl::UnavailableError("the controller has ended");
  if (full) return absl::ResourceExhaustedError("the disk is full");
  ++commits;
  if (commits != crash_at) return inner_->Commit(changes);
  crashed = true;
  return crash_after ? inner_->Commit(changes) : absl::UnavailableError("the controller has ended");
}

World::World(std::map<std::string, int> slots_of_nodes, Controller::Options options)
    : options_(std::move(options)) {
  options_.new_id = [this] { return absl::StrCat("am-", ++ids_); };
  for (const auto& [name, slots] : slots_of_nodes) agents_[name].slots = slots;
  StartController();
  for (const auto& [name, agent] : agents_) Link(name);
  Settle();
}

World::~World() = default;

// ---- the controller ----

void World::StartController() {
  store.crashed = false;
  controller_ = std::make_unique<Controller>(loop_, store, *this, options_);
  absl::Status status = controller_->Load();
  if (!status.ok()) violations.push_back(absl::StrCat("cannot load: ", status.ToString()));
}

void World::KillController() {
  controller_.reset();
  for (auto& [name, agent] : agents_) {
    agent.linked = false;
    agent.inbox.clear();
    agent.unsaid.clear();
  }
}

void World::Settle() {
  for (int round = 0; round < 12; ++round) {
    loop_.Stop();
    loop_.Run();
    if (store.crashed && up()) KillController();
    for (auto& [name, agent] : agents_) {
      if (agent.frozen) continue;
      while (!agent.inbox.empty()) {
        auto next = std::move(agent.inbox.front());
        agent.inbox.pop_front();
        next();
      }
    }
  }
}

void World::Tick() {
  Settle();
  clock.Advance(std::chrono::seconds(1));
  for (auto& [key, group] : groups_) Step(key, group);
  for (auto& [name, agent] : agents_) {
    bool here = agent.linked && !agent.frozen && up();
    agent.away = here ? 0 : agent.away + 1;
    if (agent.away >= Seconds(kAgentPatience)) {
      for (auto& [key, held] : agent.held) held.fenced = true;
    }
    if (!here) continue;
    controller_->NodeHeard(name);
    for (const auto& say : std::exchange(agent.unsaid, {})) say();
  }
  Settle();
}

void World::Run(int seconds) {
  for (int i = 0; i < seconds; ++i) Tick();
}

bool World::RunToTheEnd(int at_most_seconds) {
  for (int i = 0; i < at_most_seconds; ++i) {
    if (up() && controller_->Jobs(false).empty()) return true;
    Tick();
  }
  return up() && controller_->Jobs(false).empty();
}

// ---- requests ----

absl::StatusOr<std::string> World::Submit(JobSpec spec, const std::string& token) {
  absl::StatusOr<std::string> answer = absl::UnknownError("no answer");
  if (!up()) return answer;
  spec.world_size = spec.demand.nodes * spec.demand.ranks_per_node;
  controller_->Submit({std::move(spec), token}, [&](absl::StatusOr<Ordered> ordered) {
    if (store.crashed) return;
    answer = ordered.ok() ? absl::StatusOr<std::string>(ordered->id) : ordered.status();
  });
  Settle();
  return answer;
}

absl::StatusOr<JobReport> World::Cancel(const std::string& id, std::optional<Duration> grace) {
  absl::StatusOr<JobReport> answer = absl::UnknownError("no answer");
  if (!up()) return answer;
  controller_->Cancel(id, grace, "it was cancelled", [&](absl::StatusOr<JobReport> report) {
    if (!store.crashed) answer = std::move(report);
  });
  Settle();
  return answer;
}

absl::StatusOr<NodeStatus> World::Drain(const std::string& node, bool drained) {
  absl::StatusOr<NodeStatus> answer = absl::UnknownError("no answer");
  if (!up()) return answer;
  controller_->Drain(node, drained, "a new fan", [&](absl::StatusOr<NodeStatus> status) {
    if (!store.crashed) answer = std::move(status);
  });
  Settle();
  return answer;
}

JobReport World::Report(const std::string& id) {
  absl::StatusOr<JobReport> report = controller_->Find(id);
  if (report.ok()) return *report;
  violations.push_back(report.status().ToString());
  return {};
}

std::vector<std::string> World::Kinds(const std::string& id) {
  std::vector<std::string> kinds;
  std::vector<StoredEvent> events = *store.Events(id, 0, 1 << 20);
  for (const StoredEvent& event : events) {
    kinds.push_back(event.kind == "phase" ? event.text.substr(0, event.text.find(':'))
                                          : event.kind);
  }
  return kinds;
}

// ---- the nodes ----

void World::Unlink(const std::string& name) {
  Agent& agent = agents_.at(name);
  if (!agent.linked) return;
  agent.linked = false;
  agent.inbox.clear();
  agent.unsaid.clear();
  if (up()) controller_->NodeDisconnected(name, "its stream was closed");
}

void World::Link(const std::string& name) {
  Agent& agent = agents_.at(name);
  if (agent.linked || !agent.alive || agent.frozen || !up()) return;
  agent.linked = true;
  NodeHello hello{
      .name = name, .instance = absl::StrCat(name, "/", agent.instance), .cpu_slots = agent.slots};
  for (const auto& [key, held] : agent.held) {
    int64_t& attempt = hello.attempts[key.first];
    attempt = std::max(attempt, key.second);
  }
  controller_->NodeConnected(std::move(hello));
  for (const auto& [key, held] : agent.held) {
    for (const Observation& said : held.said) controller_->Observe(key.first, said);
  }
}

void World::CrashNode(const std::string& name) {
  Agent& agent = agents_.at(name);
  for (const auto& [key, held] : agent.held) {
    if (held.live) groups_.at(key).broken = true;
  }
  agent.held.clear();
  agent.started.clear();
  agent.alive = false;
  agent.frozen = false;
  ++agent.instance;
  Unlink(name);
}

void World::BootNode(const std::string& name) {
  agents_.at(name).alive = true;
  Link(name);
}

int World::live_attempts() const {
  std::set<Key> live;
  for (const auto& [name, agent] : agents_) {
    for (const auto& [key, held] : agent.held) {
      if (held.live) live.insert(key);
    }
  }
  return static_cast<int>(live.size());
}

void World::Say(const std::string& node, const Key& key, const Observation& observation) {
  Agent& agent = agents_.at(node);
  auto held = agent.held.find(key);
  if (held != agent.held.end() && !std::holds_alternative<RankStepped>(observation)) {
    held->second.said.push_back(observation);
  }
  if (!agent.linked || !up()) return;
  auto say = [this, key, observation] { controller_->Observe(key.first, observation); };
  if (agent.frozen || !agent.unsaid.empty()) {  // in order
    agent.unsaid.push_back(say);
  } else {
    say();
  }
}

void World::Begin(const std::string& node, const Key& key, const std::string& name,
                  const Placement& placement, const NodeShare& share, int first_rank, bool resume) {
  Agent& agent = agents_.at(node);
  const auto& [job, attempt] = key;
  if (agent.held.contains(key)) return;
  for (const auto& [other, held] : agent.held) {
    if (other.first == job && other.second > attempt) return;
  }
  std::string what = absl::StrCat(job, "/", attempt, " on ", node);
  if (!agent.started.insert(key).second) violations.push_back("started twice: " + what);
  for (const auto& [other, held] : agent.held) {
    if (!held.live) continue;
    for (int slot : share.slots) {
      if (std::ranges::count(held.slots, slot) == 0) continue;
      violations.push_back(
          absl::StrCat("slot ", slot, " is taken by ", other.first, "/", other.second, ": ", what));
    }
  }
  for (const auto& [elsewhere, peer] : agents_) {
    for (const auto& [other, held] : peer.held) {
      if (held.live && !held.fenced && other.first == job && other.second < attempt) {
        violations.push_back(
            absl::StrCat("attempt ", other.second, " lives on ", elsewhere, ": ", what));
      }
    }
  }
  Group& group = groups_[key];
  if (group.nodes.empty()) {
    group.name = name;
    group.step = resume ? saved_[job] : 0;
    for (const NodeShare& part : placement) {
      group.nodes.insert(part.node);
      group.world_size += static_cast<int>(part.slots.size());
    }
  }
  Held& held = agent.held[key];
  held.slots = share.slots;
  for (size_t i = 0; i < share.slots.size(); ++i)
    held.ranks.push_back(first_rank + static_cast<int>(i));
  if (attempt <= scripts[name].not_started) {
    held.live = false;
    Say(node, key, StartFailed{attempt, "the agent of this node is leaving"});
    return Say(node, key, AttemptEmpty{.attempt = attempt, .node = node});
  }
  for (int rank : held.ranks) {
    Say(node, key, RankStarted{.attempt = attempt, .rank = rank, .pid = 100 + rank});
  }
  if (first_rank == 0) Say(node, key, StoreListening{attempt, node + ":1"});
}

void World::End(const std::string& node, const Key& key, int code, int signal,
                std::string because) {
  Held& held = agents_.at(node).held.at(key);
  if (!held.live) return;
  held.live = false;
  for (int rank : held.ranks) {
    Say(node, key,
        RankExited{.attempt = key.second,
                   .rank = rank,
                   .exit = {.code = code, .signal = signal},
                   .killed_because = because});
  }
  Say(node, key, AttemptEmpty{.attempt = key.second, .node = node});
}

// A second of an attempt's life.
void World::Step(const Key& key, Group& group) {
  const auto& [job, attempt] = key;
  const Script& script = scripts[group.name];
  std::vector<std::string> here;
  bool all_met = true, some_leave = false;
  for (const std::string& node : group.nodes) {
    auto held = agents_.at(node).held.find(key);
    if (held == agents_.at(node).held.end() || !held->second.live) continue;
    here.push_back(node);
    all_met = all_met && held->second.met;
    some_leave = some_leave || held->second.leaving;
  }
  if (here.empty()) return;
  bool whole = here.size() == group.nodes.size();
  if (!whole && (group.ready || group.broken)) {  // they lost a peer
    for (const std::string& node : here) End(node, key, 76, 0, "");
    return;
  }
  if (!whole) return;  // some have not been started yet
  if (some_leave && !script.deaf) {
    if (group.ready) {
      saved_[job] = group.step;
      Say(here.front(), key,
          CheckpointDone{attempt, group.step, absl::StrCat("step_", group.step)});
    }
    for (const std::string& node : here) End(node, key, 75, 0, "");
    return;
  }
  if (!group.ready) {
    if (!all_met) return;
    group.ready = true;
    for (const std::string& node : here) {
      for (int rank : agents_.at(node).held.at(key).ranks) {
        Say(node, key, RankReady{.attempt = attempt, .rank = rank, .step = group.step});
      }
    }
    return;
  }
  if (script.user_error_at == attempt) {
    for (const std::string& node : here) End(node, key, 2, 0, "");
    return;
  }
  ++group.step;
  auto dies = script.dies_at.find(attempt);
  if (dies != script.dies_at.end() && group.step >= dies->second) {
    End(here.back(), key, 0, 9, "");
    group.broken = true;
    return;
  }
  Say(here.front(), key, RankStepped{attempt, group.step});
  if (group.step % script.checkpoint_every == 0) {
    saved_[job] = group.step;
    Say(here.front(), key, CheckpointDone{attempt, group.step, absl::StrCat("step_", group.step)});
  }
  if (group.step >= script.steps) {
    for (const std::string& node : here) End(node, key, 0, 0, "");
  }
}

// ---- Backend ----

void World::Deliver(const std::string& node, std::function<void()> what) {
  if (store.crashed) return;
  auto agent = agents_.find(node);
  if (agent != agents_.end() && agent->second.linked)
    agent->second.inbox.push_back(std::move(what));
}

void World::ForShares(const Placement& placement, const std::string& only,
                      const std::function<void(const NodeShare&, int first_rank)>& call) {
  int first = 0;
  for (const NodeShare& share : placement) {
    if (only.empty() || only == share.node) call(share, first);
    first += static_cast<int>(share.slots.size());
  }
}

void World::Start(const JobSpec& spec, const Placement& placement, const StartRanks& action) {
  Key key{spec.id, action.attempt};
  ForShares(placement, action.node, [&](const NodeShare& share, int first) {
    if (!store.crashed)
      sent.push_back(absl::StrCat("start ", spec.id, "/", action.attempt, " ", share.node));
    Deliver(share.node, [=, this, name = spec.name, resume = action.resume_own_checkpoint] {
      Begin(share.node, key, name, placement, share, first, resume);
    });
  });
}

void World::Rendezvous(const JobSpec& spec, const Placement& placement,
                       const SendRendezvous& action) {
  Key key{spec.id, action.attempt};
  ForShares(placement, action.node, [&](const NodeShare& share, int) {
    Deliver(share.node, [this, key, node = share.node] {
      auto held = agents_.at(node).held.find(key);
      if (held != agents_.at(node).held.end()) held->second.met = true;
    });
  });
}

void World::Leave(const JobSpec& spec, const Placement& placement, const LeaveRanks& action) {
  Key key{spec.id, action.attempt};
  ForShares(placement, action.node, [&](const NodeShare& share, int) {
    if (!store.crashed)
      sent.push_back(absl::StrCat("leave ", spec.id, "/", action.attempt, " ", share.node));
    Deliver(share.node, [this, key, node = share.node] {
      auto held = agents_.at(node).held.find(key);
      if (held != agents_.at(node).held.end()) held->second.leaving = true;
    });
  });
}

void World::Kill(const JobSpec& spec, const Placement& placement, const KillRanks& action) {
  Key key{spec.id, action.attempt};
  ForShares(placement, action.node, [&](const NodeShare& share, int) {
    if (!store.crashed)
      sent.push_back(absl::StrCat("kill ", spec.id, "/", action.attempt, " ", share.node));
    Deliver(share.node, [this, key, node = share.node, because = action.because] {
      if (agents_.at(node).held.contains(key)) End(node, key, 0, 9, because);
    });
  });
}

void World::Forget(const std::string& job, int64_t attempt, const Placement& placement) {
  Key key{job, attempt};
  for (const NodeShare& share : placement) {
    Deliver(share.node, [this, key, node = share.node] {
      auto held = agents_.at(node).held.find(key);
      if (held != agents_.at(node).held.end() && !held->second.live) {
        agents_.at(node).held.erase(held);
      }
    });
  }
}

// ---- what must hold ----

void World::CheckEvents() {
  std::map<std::string, bool> ended, begun;
  int64_t last = 0;
  std::vector<StoredEvent> events = *store.Events("", 0, 1 << 20);
  for (const StoredEvent& event : events) {
    if (event.seq != ++last) violations.push_back("events are not in order");
    if (event.job.empty()) continue;
    auto wrong = [&](const std::string& what) {
      violations.push_back(absl::StrCat(event.job, " ", what, ": ", event.kind, " ", event.text));
    };
    if (ended[event.job]) wrong("goes on after its end");
    if (event.kind == "submitted" && std::exchange(begun[event.job], true)) wrong("begins twice");
    if (!begun[event.job]) wrong("has no beginning");
    if (event.kind == "phase") {
      bool end = event.text.starts_with("Succeeded") || event.text.starts_with("Failed") ||
                 event.text.starts_with("Cancelled");
      ended[event.job] = end;
    }
  }
  for (const JobReport& report : controller_->Jobs(true)) {
    const JobStatus& status = report.job.status;
    if (!IsTerminal(status.phase)) continue;
    Duration life{status.ended_unix_ns - report.job.spec.submitted_unix_ns};
    if (report.goodput.total() != life) {
      violations.push_back(absl::StrCat(report.job.spec.id, ": its seconds do not add up: ",
                                        Seconds(report.goodput.total()), " of ", Seconds(life)));
    }
  }
}

}  // namespace am::controller

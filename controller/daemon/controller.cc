#include "controller/daemon/controller.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "controller/daemon/live_job.h"
#include "controller/daemon/node_table.h"
#include "controller/daemon/outbox.h"
#include "controller/job/job_json.h"
#include "controller/job/root_cause.h"

namespace am::controller {
namespace {

constexpr Duration kFirstRetry = std::chrono::milliseconds(100);
constexpr Duration kLongestRetry = std::chrono::seconds(5);
constexpr int64_t kListedEnded = 1000;
// Jobs that have had a place go first in their class.
constexpr Duration kReturningFirst = std::chrono::hours(24 * 3650);

JobReport ReportOf(JobRecord record) {
  JobReport report{.job = std::move(record.job),
                   .goodput = record.goodput.booked,
                   .last_step_json = std::move(record.last_step_json)};
  const JobStatus& status = report.job.status;
  report.observed.checkpoint = status.checkpoint;
  report.observed.attempt = status.attempt;
  report.observed.step = status.step;
  report.observed.ranks = std::move(record.ranks);
  report.started_unix_ns = status.started_unix_ns;
  report.ended_unix_ns = status.ended_unix_ns;
  if (status.phase == JobPhase::kFailed) report.why = status.last_words;
  if (status.phase == JobPhase::kCancelled && report.job.stop)
    report.why = report.job.stop->because;
  return report;
}

}  // namespace

class Controller::Impl : public std::enable_shared_from_this<Controller::Impl> {
 public:
  Impl(EventLoop& loop, Store& store, Backend& backend, Options options)
      : loop_(loop),
        clock_(loop.clock()),
        store_(store),
        options_(std::move(options)),
        outbox_(store, backend, loop.clock()) {}

  absl::Status Load();
  void Submit(Order order, std::function<void(absl::StatusOr<Ordered>)> done);
  void Cancel(const std::string& id, std::optional<Duration> grace, std::string because,
              std::function<void(absl::StatusOr<JobReport>)> done);
  void Drain(const std::string& name, bool drained, std::string reason,
             std::function<void(absl::StatusOr<NodeStatus>)> done);
  absl::StatusOr<JobReport> Find(const std::string& id);
  std::vector<JobReport> Jobs(bool ended_too);
  std::vector<NodeStatus> Nodes() const;
  Outbox& outbox() { return outbox_; }

  void NodeConnected(NodeHello hello);
  void NodeHeard(const std::string& name);
  void NodeDisconnected(const std::string& name, std::string reason);
  void Observe(const std::string& id, const Observation& observation);
  void RankEvent(const std::string& id, int64_t attempt, int rank, const std::string& json);

 private:
  struct Entry {
    LiveJob live;
    std::set<std::string> waits_for;
    std::string why;
    std::optional<EventLoop::TimerId> timer;
    template <class What>
    Entry(What what, Outbox& outbox, const Clock& clock) : live(std::move(what), outbox, clock) {}
  };
  using EntryPtr = std::unique_ptr<Entry>;

  // ---- the turn ----
  void Touch(const std::string& id) {
    touched_.insert(id);
    TurnSoon();
  }
  void TurnSoon();
  void Turn();
  void TurnJob(Entry& entry);
  void AfterAttempt(const std::string& id, const LiveJob::Turned& turned);
  void TellDependents(const LiveJob& ended);
  void PlaceJobs();
  QueueView View() const;
  void Commit();
  void RetryLater();
  void SetTimer(Entry& entry, std::optional<TimePoint> when);

  // ---- nodes ----
  bool IsDue(const std::string& id, int64_t attempt, const std::string& node) const;
  void ForEachJobOn(const std::string& node, const std::function<void(Entry&)>& call);
  void CheckNodes();
  void TellNode(const std::string& name, const std::string& text);

  absl::Status CheckAfter(JobSpec& spec, std::set<std::string>& waits_for);
  absl::Status CheckFits(const JobSpec& spec) const;
  absl::StatusOr<std::string> Resolve(const std::string& id_or_prefix);
  absl::StatusOr<std::optional<JobRecord>> Stored(const std::string& id);
  JobReport Report(const Entry& entry) const;
  NodeStatus Status(const std::string& name, const NodeTable::Node& node) const;
  Entry* Live(const std::string& id) {
    auto found = jobs_.find(id);
    return found == jobs_.end() ? nullptr : found->second.get();
  }

  EventLoop& loop_;
  const Clock& clock_;
  Store& store_;
  Options options_;
  Outbox outbox_;
  NodeTable nodes_;
  std::map<std::string, EntryPtr> jobs_;       // that have not ended
  std::map<std::string, std::string> tokens_;  // client token → id, of those
  std::set<std::string> touched_;
  std::set<std::string> unstored_;  // submitted since the last transaction
  bool turn_posted_ = false;
  bool queue_changed_ = false;
  bool node_timer_set_ = false;
  TimePoint loaded_at_;
  absl::Status store_status_;  // not OK: the last transaction failed, and is tried again
  Duration retry_in_ = kFirstRetry;
};

// ---- start ----

absl::Status Controller::Impl::Load() {
  loaded_at_ = clock_.Now();
  AM_ASSIGN_OR_RETURN(StoredState state, store_.Load());
  outbox_.set_last_seq(state.last_seq);
  for (const StoredJob& stored : state.jobs) {
    absl::StatusOr<JobRecord> record = JobRecordFromJson(stored.document, Clocks::Read(clock_));
    if (!record.ok()) {
      return absl::Status(record.status().code(),
                          absl::StrCat("job ", stored.id, ": ", record.status().message()));
    }
    if (!stored.client_token.empty()) tokens_[stored.client_token] = stored.id;
    jobs_[stored.id] = std::make_unique<Entry>(std::move(*record), outbox_, clock_);
  }
  for (auto& [id, entry] : jobs_) {
    Touch(id);
    if (!entry->live.waits()) continue;
    for (const std::string& before : entry->live.job().spec.after) {
      if (jobs_.contains(before)) {
        entry->waits_for.insert(before);
        continue;
      }
      AM_ASSIGN_OR_RETURN(std::optional<JobRecord> record, Stored(before));
      if (record && record->job.status.phase == JobPhase::kSucceeded) continue;
      entry->live.driver().RequestStop(
          {.kind = StopRequest::Kind::kFail,
           .leave_by = clock_.Now(),
           .because = absl::StrCat(before, ", which it was to begin after, did not succeed")});
    }
  }
  for (const StoredNode& stored : state.nodes) {
    NodeTable::Node& node = nodes_.at(stored.name);
    node.hello.name = stored.name;
    node.drained = stored.drained;
    node.drain_reason = stored.reason;
    node.away_since = clock_.Now();
  }
  queue_changed_ = true;
  TurnSoon();
  return absl::OkStatus();
}

// ---- the turn ----

void Controller::Impl::TurnSoon() {
  if (std::exchange(turn_posted_, true)) return;
  loop_.Post([weak = weak_from_this()] {
    if (auto self = weak.lock()) self->Turn();
  });
}

void Controller::Impl::Turn() {
  turn_posted_ = false;
  if (!store_status_.ok()) return;  // when the store can take what there is already
  while (!touched_.empty() || queue_changed_) {
    while (!touched_.empty()) {
      Entry* entry = Live(touched_.extract(touched_.begin()).value());
      if (entry != nullptr && !entry->live.ended()) TurnJob(*entry);
    }
    if (std::exchange(queue_changed_, false)) PlaceJobs();
  }
  Commit();
}

void Controller::Impl::TurnJob(Entry& entry) {
  LiveJob& live = entry.live;
  LiveJob::Turned turned = live.Turn();
  SetTimer(entry, turned.wake_at);
  queue_changed_ = queue_changed_ || turned.queue_changed || live.waits();
  if (turned.over > 0) AfterAttempt(live.id(), turned);
  if (turned.fault && turned.fault->rank >= 0 && turned.fault->kind != FailureKind::kUser) {
    const Placement& placement = live.job().status.placement;
    size_t share = static_cast<size_t>(ShareOfRank(placement, turned.fault->rank));
    if (share < placement.size() &&
        nodes_.CountFault(placement[share].node, live.id(), clock_.Now())) {
      TellNode(placement[share].node,
               absl::StrCat("gets no more jobs: ", nodes_.at(placement[share].node).quarantined));
    }
  }
  if (live.ended()) TellDependents(live);
}

// Where nothing is left, the attempt may be forgotten; where something may be, it is void.
void Controller::Impl::AfterAttempt(const std::string& id, const LiveJob::Turned& turned) {
  Placement empty;
  for (const std::string& node : turned.empty) empty.push_back({.node = node});
  if (!empty.empty()) outbox_.Forget(id, turned.over, empty);
  for (const std::string& node : turned.abandoned) nodes_.at(node).voided.emplace(id, turned.over);
}

void Controller::Impl::TellDependents(const LiveJob& ended) {
  bool succeeded = ended.job().status.phase == JobPhase::kSucceeded;
  for (auto& [id, entry] : jobs_) {
    if (entry->waits_for.erase(ended.id()) == 0) continue;
    if (!succeeded) {
      entry->live.driver().RequestStop(
          {.kind = StopRequest::Kind::kFail,
           .leave_by = clock_.Now(),
           .because = absl::StrCat(ended.id(), ", which it was to begin after, did not succeed")});
    }
    Touch(id);
  }
}

QueueView Controller::Impl::View() const {
  QueueView view{.now = clock_.Now(), .nodes = nodes_.Views(), .quotas = options_.quotas};
  for (const auto& [id, entry] : jobs_) {
    const LiveJob& live = entry->live;
    const JobSpec& spec = live.job().spec;
    const JobStatus& status = live.job().status;
    if (live.ended()) continue;
    if (live.waits()) {
      TimePoint submitted{Duration(spec.submitted_unix_ns)};
      view.waiting.push_back(
          {.id = id,
           .user = spec.user,
           .priority = spec.priority,
           .submitted = status.attempt > 0 ? submitted - kReturningFirst : submitted,
           .demand = spec.demand,
           .waits_for = {entry->waits_for.begin(), entry->waits_for.end()},
           .time_limit =
               spec.time_limit ? std::optional(*live.ends_by(view.now) - view.now) : std::nullopt,
           .not_before = live.not_before()});
    } else {
      view.running.push_back({.id = id,
                              .user = spec.user,
                              .priority = spec.priority,
                              .started = TimePoint(Duration(status.placed_unix_ns)),
                              .demand = spec.demand,
                              .placement = status.placement,
                              .ends_by = live.ends_by(view.now),
                              .stopping = live.job().stop.has_value()});
    }
  }
  return view;
}

void Controller::Impl::PlaceJobs() {
  Verdict verdict = Schedule(View());
  for (auto& [id, why] : verdict.why_waiting) {
    if (Entry* entry = Live(id)) entry->why = std::move(why);
  }
  for (Placed& placed : verdict.placed) {
    Entry* entry = Live(placed.id);
    entry->why.clear();
    entry->live.driver().Place(std::move(placed.placement));
    touched_.insert(placed.id);
  }
  for (const Preempted& preempted : verdict.preempted) {
    Entry* entry = Live(preempted.id);
    entry->live.driver().RequestStop(
        {.kind = StopRequest::Kind::kSuspend,
         .leave_by = clock_.Now() + entry->live.job().spec.restart.grace,
         .because = absl::StrCat("it makes room for ", preempted.for_id, ", of higher priority")});
    touched_.insert(preempted.id);
  }
}

void Controller::Impl::Commit() {
  absl::Status status = outbox_.Flush();
  if (!status.ok()) {
    for (const std::string& id : std::exchange(unstored_, {})) {
      outbox_.Withdraw(id);
      Entry& entry = *jobs_.at(id);
      SetTimer(entry, std::nullopt);
      tokens_.erase(entry.live.job().spec.client_token);
      jobs_.erase(id);
    }
    store_status_ = status;
    queue_changed_ = true;
    RetryLater();
    return;
  }
  unstored_.clear();
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    if (!job->second->live.ended()) {
      ++job;
      continue;
    }
    tokens_.erase(job->second->live.job().spec.client_token);
    job = jobs_.erase(job);
  }
}

void Controller::Impl::RetryLater() {
  loop_.RunAt(clock_.Now() + retry_in_, [weak = weak_from_this()] {
    auto self = weak.lock();
    if (!self) return;
    self->retry_in_ = std::min(self->retry_in_ * 2, kLongestRetry);
    self->store_status_ = absl::OkStatus();
    self->Commit();
    if (!self->store_status_.ok()) return;
    self->retry_in_ = kFirstRetry;
    self->TurnSoon();
  });
}

void Controller::Impl::SetTimer(Entry& entry, std::optional<TimePoint> when) {
  if (entry.timer) loop_.Cancel(*entry.timer);
  entry.timer.reset();
  if (!when) return;
  entry.timer = loop_.RunAt(*when, [weak = weak_from_this(), id = entry.live.id()] {
    if (auto self = weak.lock()) self->Touch(id);
  });
}

// ---- requests ----

absl::Status Controller::Impl::CheckAfter(JobSpec& spec, std::set<std::string>& waits_for) {
  for (std::string& before : spec.after) {
    AM_ASSIGN_OR_RETURN(before, Resolve(before));
    if (jobs_.contains(before)) {
      waits_for.insert(before);
      continue;
    }
    AM_ASSIGN_OR_RETURN(std::optional<JobRecord> record, Stored(before));
    if (record && record->job.status.phase == JobPhase::kSucceeded) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("it is to begin after ", before, ", which has ended as ",
                     record ? Name(record->job.status.phase) : "unknown"));
  }
  return absl::OkStatus();
}

absl::Status Controller::Impl::CheckFits(const JobSpec& spec) const {
  int slots = spec.demand.nodes * spec.demand.ranks_per_node;
  if (slots != spec.world_size || slots < 1) {
    return absl::InvalidArgumentError(absl::StrCat("world size ", spec.world_size, " is not ",
                                                   spec.demand.nodes, " nodes of ",
                                                   spec.demand.ranks_per_node, " ranks"));
  }
  auto quota = options_.quotas.find(spec.user);
  if (quota == options_.quotas.end()) quota = options_.quotas.find("");
  if (quota != options_.quotas.end() && quota->second.max_slots > 0 &&
      slots > quota->second.max_slots) {
    return absl::ResourceExhaustedError(absl::StrCat("needs ", slots, " slots, and ", spec.user,
                                                     " may have ", quota->second.max_slots));
  }
  std::vector<NodeView> nodes = nodes_.Views();
  bool settled = clock_.Now() >= loaded_at_ + options_.settle;
  if (!settled || nodes.empty()) return absl::OkStatus();
  std::string why = WhyImpossible(spec.demand, nodes);
  return why.empty() ? absl::OkStatus() : absl::InvalidArgumentError(why);
}

void Controller::Impl::Submit(Order order, std::function<void(absl::StatusOr<Ordered>)> done) {
  if (!store_status_.ok()) return done(store_status_);
  auto answer = [this, &done](Ordered ordered) {
    outbox_.Answer(
        [done = std::move(done), ordered = std::move(ordered)](const absl::Status& stored) {
          if (stored.ok()) {
            done(ordered);
          } else {
            done(stored);
          }
        });
    TurnSoon();
  };
  JobSpec& spec = order.spec;
  if (!order.client_token.empty()) {
    if (auto known = tokens_.find(order.client_token); known != tokens_.end()) {
      return answer({known->second, true});
    }
    absl::StatusOr<std::optional<StoredJob>> known = store_.FindByToken(order.client_token);
    if (!known.ok()) return done(known.status());
    if (*known) return answer({(*known)->id, true});
  }
  std::set<std::string> waits_for;
  if (absl::Status status = CheckAfter(spec, waits_for); !status.ok()) return done(status);
  if (absl::Status status = CheckFits(spec); !status.ok()) return done(status);

  spec.id = options_.new_id();
  spec.client_token = order.client_token;
  spec.submitted_unix_ns = clock_.UnixNanos();
  spec.restart.other_nodes = true;
  std::string id = spec.id;
  if (!spec.client_token.empty()) tokens_[spec.client_token] = id;
  EntryPtr& entry = jobs_[id] = std::make_unique<Entry>(std::move(spec), outbox_, clock_);
  entry->waits_for = std::move(waits_for);
  unstored_.insert(id);
  Touch(id);
  answer({id, false});
}

void Controller::Impl::Cancel(const std::string& id, std::optional<Duration> grace,
                              std::string because,
                              std::function<void(absl::StatusOr<JobReport>)> done) {
  if (!store_status_.ok()) return done(store_status_);
  absl::StatusOr<std::string> whole = Resolve(id);
  if (!whole.ok()) return done(whole.status());
  if (Entry* entry = Live(*whole)) {
    Duration patience = grace.value_or(entry->live.job().spec.restart.grace);
    entry->live.driver().RequestStop(
        {.kind = StopRequest::Kind::kCancel,
         .leave_by = clock_.Now() + std::max(patience, Duration::zero()),
         .because = std::move(because)});
    Touch(*whole);
  }
  outbox_.Answer([this, whole = *whole, done = std::move(done)](const absl::Status& stored) {
    if (stored.ok()) {
      done(Find(whole));
    } else {
      done(stored);
    }
  });
  TurnSoon();
}

void Controller::Impl::Drain(const std::string& name, bool drained, std::string reason,
                             std::function<void(absl::StatusOr<NodeStatus>)> done) {
  if (!store_status_.ok()) return done(store_status_);
  NodeTable::Node* node = nodes_.Find(name);
  if (node == nullptr) {
    std::vector<std::string> names;
    for (const auto& [known, unused] : nodes_.all()) names.push_back(known);
    return done(absl::NotFoundError(
        absl::StrCat("no node ", name,
                     names.empty() ? "; none has connected yet"
                                   : absl::StrCat("; there are ", absl::StrJoin(names, ", ")))));
  }
  node->drained = drained;
  node->drain_reason = drained ? std::move(reason) : "";
  if (!drained) {
    node->quarantined.clear();
    node->faults.clear();
  }
  outbox_.Put(StoredNode{name, drained, node->drain_reason});
  TellNode(name, drained ? absl::StrCat("is drained", node->drain_reason.empty() ? "" : ": ",
                                        node->drain_reason)
                         : "may be given jobs again");
  queue_changed_ = true;
  outbox_.Answer([this, name, done = std::move(done)](const absl::Status& stored) {
    if (stored.ok()) {
      done(Status(name, nodes_.at(name)));
    } else {
      done(stored);
    }
  });
  TurnSoon();
}

// ---- answers ----

absl::StatusOr<std::optional<JobRecord>> Controller::Impl::Stored(const std::string& id) {
  AM_ASSIGN_OR_RETURN(std::optional<StoredJob> stored, store_.Find(id));
  if (!stored) return std::optional<JobRecord>();
  AM_ASSIGN_OR_RETURN(JobRecord record, JobRecordFromJson(stored->document, Clocks::Read(clock_)));
  return std::optional<JobRecord>(std::move(record));
}

absl::StatusOr<std::string> Controller::Impl::Resolve(const std::string& id_or_prefix) {
  if (jobs_.contains(id_or_prefix)) return id_or_prefix;
  AM_ASSIGN_OR_RETURN(std::optional<StoredJob> exact, store_.Find(id_or_prefix));
  if (exact) return exact->id;
  std::vector<std::string> all;
  for (const auto& [id, entry] : jobs_) all.push_back(id);
  AM_ASSIGN_OR_RETURN(std::vector<StoredJob> ended, store_.Ended(kListedEnded));
  for (const StoredJob& job : ended) all.push_back(job.id);
  std::vector<std::string> matches;
  for (const std::string& id : all) {
    if (!id_or_prefix.empty() && id.starts_with(id_or_prefix)) matches.push_back(id);
  }
  if (matches.size() == 1) return matches.front();
  if (matches.size() > 1) {
    return absl::InvalidArgumentError(absl::StrCat(id_or_prefix, " is the beginning of ",
                                                   matches.size(),
                                                   " job ids: ", absl::StrJoin(matches, ", ")));
  }
  auto common = [&](const std::string& id) {
    return std::ranges::mismatch(id, id_or_prefix).in1 - id.begin();
  };
  auto nearest = std::ranges::max_element(all, {}, common);
  return absl::NotFoundError(absl::StrCat(
      "no job ", id_or_prefix,
      nearest == all.end() ? "; there is none yet" : absl::StrCat("; the nearest is ", *nearest)));
}

absl::StatusOr<JobReport> Controller::Impl::Find(const std::string& id) {
  AM_ASSIGN_OR_RETURN(std::string whole, Resolve(id));
  if (const Entry* entry = Live(whole)) return Report(*entry);
  AM_ASSIGN_OR_RETURN(std::optional<JobRecord> record, Stored(whole));
  if (!record) return absl::NotFoundError(absl::StrCat("no job ", whole));
  return ReportOf(std::move(*record));
}

std::vector<JobReport> Controller::Impl::Jobs(bool ended_too) {
  std::vector<JobReport> reports;
  for (const auto& [id, entry] : jobs_) reports.push_back(Report(*entry));
  std::ranges::stable_sort(
      reports, {}, [](const JobReport& report) { return report.job.spec.submitted_unix_ns; });
  if (!ended_too) return reports;
  absl::StatusOr<std::vector<StoredJob>> ended = store_.Ended(kListedEnded);
  if (!ended.ok()) return reports;
  for (const StoredJob& stored : *ended) {
    if (jobs_.contains(stored.id)) continue;
    absl::StatusOr<JobRecord> record = JobRecordFromJson(stored.document, Clocks::Read(clock_));
    if (record.ok()) reports.push_back(ReportOf(std::move(*record)));
  }
  return reports;
}

JobReport Controller::Impl::Report(const Entry& entry) const {
  const LiveJob& live = entry.live;
  JobReport report = ReportOf({.job = live.job(), .last_step_json = live.last_step_json()});
  report.observed = live.observed();
  report.goodput = live.goodput();
  if (live.waits()) {
    report.why = entry.why;
  } else if (!live.ended() && live.job().stop) {
    report.why = live.job().stop->because;
  } else if (live.job().status.phase == JobPhase::kRestarting && live.job().status.failure) {
    report.why = Describe(*live.job().status.failure);
  }
  return report;
}

NodeStatus Controller::Impl::Status(const std::string& name, const NodeTable::Node& node) const {
  NodeStatus status{.hello = node.hello,
                    .state = node.state(clock_.Now()),
                    .drained = node.drained,
                    .reason = node.drain_reason,
                    .quarantined = node.quarantined,
                    .last_heard = node.last_heard};
  int used = 0;
  for (const auto& [id, entry] : jobs_) {
    if (entry->live.waits() || entry->live.ended()) continue;
    for (const NodeShare& share : entry->live.job().status.placement) {
      if (share.node != name) continue;
      status.jobs.push_back(id);
      bool counts = entry->live.job().spec.demand.gpus == (node.hello.gpus > 0);
      if (counts) used += static_cast<int>(share.slots.size());
    }
  }
  int slots = node.hello.gpus > 0 ? node.hello.gpus : node.hello.cpu_slots;
  status.free_slots = node.known ? std::max(0, slots - used) : 0;
  return status;
}

std::vector<NodeStatus> Controller::Impl::Nodes() const {
  std::vector<NodeStatus> all;
  for (const auto& [name, node] : nodes_.all()) all.push_back(Status(name, node));
  return all;
}

// ---- from the agents ----

bool Controller::Impl::IsDue(const std::string& id, int64_t attempt,
                             const std::string& node) const {
  auto found = jobs_.find(id);
  if (found == jobs_.end() || found->second->live.ended()) return false;
  const JobStatus& status = found->second->live.job().status;
  return status.attempt == attempt && !found->second->live.waits() &&
         std::ranges::count(status.placement, node, &NodeShare::node) > 0;
}

void Controller::Impl::ForEachJobOn(const std::string& node,
                                    const std::function<void(Entry&)>& call) {
  for (auto& [id, entry] : jobs_) {
    if (!IsDue(id, entry->live.job().status.attempt, node)) continue;
    call(*entry);
    Touch(id);
  }
}

void Controller::Impl::TellNode(const std::string& name, const std::string& text) {
  outbox_.Tell("", "node", absl::StrCat(name, " ", text));
}

void Controller::Impl::NodeConnected(NodeHello hello) {
  std::string name = hello.name;
  NodeTable::Node& node = nodes_.at(name);
  if (!node.known || node.told_lost || node.hello.instance != hello.instance) {
    TellNode(name, absl::StrCat("is here, with ",
                                hello.gpus > 0 ? absl::StrCat(hello.gpus, " GPUs")
                                               : absl::StrCat(hello.cpu_slots, " CPU slots")));
  }
  node.hello = std::move(hello);
  node.known = node.connected = true;
  node.silent = node.told_lost = false;
  node.last_heard = clock_.Now();
  outbox_.DropFor(name);
  node.voided.clear();
  for (const auto& [id, attempt] : node.hello.attempts) {
    if (IsDue(id, attempt, name)) continue;
    node.voided.emplace(id, attempt);
    outbox_.KillVoid(id, attempt, name);
  }
  ForEachJobOn(name, [&](Entry& entry) {
    auto known = node.hello.attempts.find(entry.live.id());
    entry.live.driver().Observe(
        AgentConnected{name, known == node.hello.attempts.end() ? 0 : known->second});
  });
  queue_changed_ = true;
  TurnSoon();
  CheckNodes();
}

void Controller::Impl::NodeHeard(const std::string& name) {
  NodeTable::Node* node = nodes_.Find(name);
  if (node == nullptr || !node->connected) return;
  node->last_heard = clock_.Now();
  if (!node->silent) return;
  // Its stream held all the while: it has missed nothing but what was decided without it.
  node->silent = node->told_lost = false;
  TellNode(name, "is heard of again");
  for (const auto& [id, attempt] : node->voided) outbox_.KillVoid(id, attempt, name);
  ForEachJobOn(name, [&](Entry& entry) {
    entry.live.driver().Observe(AgentConnected{name, entry.live.job().status.attempt});
  });
  queue_changed_ = true;
  TurnSoon();
}

void Controller::Impl::NodeDisconnected(const std::string& name, std::string reason) {
  NodeTable::Node* node = nodes_.Find(name);
  if (node == nullptr || !node->connected) return;
  node->connected = false;
  if (!node->silent) node->away_since = clock_.Now();
  ForEachJobOn(name, [&](Entry& entry) { entry.live.driver().Observe(AgentLost{name, reason}); });
  queue_changed_ = true;
  TurnSoon();
  CheckNodes();
}

// Who has fallen silent, and who is lost; comes again when the next may be.
void Controller::Impl::CheckNodes() {
  TimePoint now = clock_.Now();
  std::optional<TimePoint> next;
  for (auto& [name, node] : nodes_.all()) {
    if (!node.known) continue;
    if (node.connected && !node.silent && now >= node.last_heard + options_.agent_silence) {
      node.silent = true;
      node.away_since = now;
      std::string why = absl::StrCat("has said nothing for ",
                                     static_cast<int64_t>(Seconds(options_.agent_silence)), " s");
      TellNode(name, why);
      ForEachJobOn(name, [&](Entry& entry) { entry.live.driver().Observe(AgentLost{name, why}); });
      queue_changed_ = true;
    }
    TimePoint due;
    if (node.connected && !node.silent) {
      due = node.last_heard + options_.agent_silence;
    } else if (node.told_lost) {
      continue;
    } else if (now >= node.away_since + kAgentPatience) {
      node.told_lost = true;
      TellNode(name, "is lost");
      TurnSoon();
      continue;
    } else {
      due = node.away_since + kAgentPatience;
    }
    next = next ? std::min(*next, due) : due;
  }
  if (queue_changed_) TurnSoon();
  if (!next || node_timer_set_) return;
  node_timer_set_ = true;
  loop_.RunAt(*next, [weak = weak_from_this()] {
    auto self = weak.lock();
    if (!self) return;
    self->node_timer_set_ = false;
    self->CheckNodes();
  });
}

void Controller::Impl::Observe(const std::string& id, const Observation& observation) {
  Entry* entry = Live(id);
  if (entry != nullptr && !entry->live.ended() && entry->live.driver().Observe(observation)) {
    Touch(id);
  }
  const auto* report = std::get_if<AttemptEmpty>(&observation);
  if (report == nullptr || IsDue(id, report->attempt, report->node)) return;
  // The last that was to be known of an attempt that is void.
  outbox_.Forget(id, report->attempt, {{.node = report->node}});
  if (NodeTable::Node* node = nodes_.Find(report->node)) {
    queue_changed_ = node->voided.erase({id, report->attempt}) > 0 || queue_changed_;
    if (!report->unkillable_pids.empty()) {
      node->quarantined = absl::StrCat("process ", report->unkillable_pids.front(), " of ", id,
                                       " could not be killed and may hold its device");
      TellNode(report->node, absl::StrCat("gets no more jobs: ", node->quarantined));
    }
  }
  TurnSoon();
}

void Controller::Impl::RankEvent(const std::string& id, int64_t attempt, int rank,
                                 const std::string& json) {
  if (Entry* entry = Live(id)) entry->live.RankEvent(attempt, rank, json);
}

// ---- Controller ----

Controller::Controller(EventLoop& loop, Store& store, Backend& backend, Options options)
    : impl_(std::make_shared<Impl>(loop, store, backend, std::move(options))) {}

absl::Status Controller::Load() { return impl_->Load(); }
void Controller::Submit(Order order, std::function<void(absl::StatusOr<Ordered>)> done) {
  impl_->Submit(std::move(order), std::move(done));
}
void Controller::Cancel(const std::string& id, std::optional<Duration> grace, std::string because,
                        std::function<void(absl::StatusOr<JobReport>)> done) {
  impl_->Cancel(id, grace, std::move(because), std::move(done));
}
void Controller::Drain(const std::string& node, bool drained, std::string reason,
                       std::function<void(absl::StatusOr<NodeStatus>)> done) {
  impl_->Drain(node, drained, std::move(reason), std::move(done));
}
absl::StatusOr<JobReport> Controller::Find(const std::string& id) { return impl_->Find(id); }
std::vector<JobReport> Controller::Jobs(bool ended_too) { return impl_->Jobs(ended_too); }
std::vector<NodeStatus> Controller::Nodes() const { return impl_->Nodes(); }
uint64_t Controller::Watch(EventCallback callback) {
  return impl_->outbox().Watch(std::move(callback));
}
void Controller::Unwatch(uint64_t id) { impl_->outbox().Unwatch(id); }
void Controller::NodeConnected(NodeHello hello) { impl_->NodeConnected(std::move(hello)); }
void Controller::NodeHeard(const std::string& node) { impl_->NodeHeard(node); }
void Controller::NodeDisconnected(const std::string& node, std::string reason) {
  impl_->NodeDisconnected(node, std::move(reason));
}
void Controller::Observe(const std::string& job, const Observation& observation) {
  impl_->Observe(job, observation);
}
void Controller::RankEvent(const std::string& job, int64_t attempt, int rank,
                           const std::string& json) {
  impl_->RankEvent(job, attempt, rank, json);
}

}  // namespace am::controller

#include "controller/daemon/live_job.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/file.h"
#include "controller/job/root_cause.h"

namespace am::controller {
namespace {

using Doing = GoodputLedger::Doing;
using Json = nlohmann::json;

constexpr Duration kFirstBackoff = std::chrono::seconds(5);
constexpr Duration kLongestBackoff = std::chrono::minutes(5);

// Before the next attempt of a job that made no progress in `attempts`. The first is free.
Duration Backoff(int attempts) {
  if (attempts <= 1) return Duration::zero();
  Duration wait = kFirstBackoff;
  for (int i = 2; i < attempts && wait < kLongestBackoff; ++i) wait *= 2;
  return std::min(wait, kLongestBackoff);
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string Text(const Placement& placement) {
  return absl::StrJoin(placement, ", ", [](std::string* out, const NodeShare& share) {
    absl::StrAppend(out, share.node, " (", absl::StrJoin(share.slots, " "), ")");
  });
}

Json ToJson(const Placement& placement) {
  Json list = Json::array();
  for (const NodeShare& share : placement) {
    list.push_back({{"node", share.node}, {"slots", share.slots}});
  }
  return list;
}

Doing DoingIn(const JobStatus& status) {
  switch (status.phase) {
    case JobPhase::kPending:
      return Doing::kQueued;
    case JobPhase::kStarting:
      return status.attempt == 1 ? Doing::kStarting : Doing::kRecovery;
    case JobPhase::kRunning:
      return Doing::kProductive;
    case JobPhase::kRestarting:
      return Doing::kRecovery;
    case JobPhase::kStopping:  // it saves, unless it was killed
      return status.kill_sent ? Doing::kRecovery : Doing::kCheckpoint;
    case JobPhase::kSucceeded:
    case JobPhase::kFailed:
    case JobPhase::kCancelled:
      return Doing::kNothing;
  }
  return Doing::kNothing;
}

}  // namespace

LiveJob::LiveJob(JobSpec spec, Outbox& outbox, const Clock& clock)
    : outbox_(outbox),
      clock_(clock),
      driver_(std::move(spec), outbox, clock, [this](const Announce& news) {
        outbox_.Tell(id(), "message", news.text, Dump({{"level", static_cast<int>(news.level)}}));
      }) {
  ledger_.Begin(Doing::kQueued, clock.Now());
}

LiveJob::LiveJob(JobRecord record, Outbox& outbox, const Clock& clock)
    : outbox_(outbox),
      clock_(clock),
      driver_(std::move(record.job), outbox, clock,
              [this](const Announce& news) {
                outbox_.Tell(id(), "message", news.text,
                             Dump({{"level", static_cast<int>(news.level)}}));
              }),
      ledger_(record.goodput),
      last_step_json_(std::move(record.last_step_json)),
      stored_(true) {}

LiveJob::Turned LiveJob::Turn() {
  const JobStatus before = job().status;
  const std::optional<StopRequest> stop_before = job().stop;
  TimePoint now = clock_.Now();
  KeepTimeLimit(now);
  std::vector<ObservedNode> nodes = observed().nodes;

  Turned turned{.wake_at = driver_.Turn()};
  if (driver_.finished() && !ended()) {
    Requeue(now);
    turned.wake_at = driver_.Turn();
  }
  const JobStatus& after = job().status;

  bool over = before.attempt > 0 && !before.placement.empty() && !IsTerminal(before.phase) &&
              before.phase != JobPhase::kPending &&
              (after.attempt != before.attempt || waits() || ended());
  if (over) {
    turned.over = before.attempt;
    if (after.attempt == before.attempt) nodes = observed().nodes;
    for (const ObservedNode& node : nodes) {
      bool empty = node.empty || (node.connected && !node.knows);
      (empty ? turned.empty : turned.abandoned).push_back(node.name);
    }
  }
  if (waits() && before.phase != JobPhase::kPending) {
    // A place where ranks cannot be started is free at once, and would be the next one too.
    bool could_not = after.failure && after.failure->kind == FailureKind::kNotStarted;
    not_before_ = now + Backoff(after.attempts_without_progress + (could_not ? 1 : 0));
  }
  Account(before, over, now);

  // How far it is, is stored with whatever else is.
  JobStatus compared = before;
  compared.step = after.step;
  bool changed = compared != after || stop_before != job().stop || !stored_;
  if (changed) {
    TellChanges(before);
    Store();
  }
  turned.queue_changed = over || before.phase != after.phase || stop_before != job().stop;
  if (after.failure && after.failure != before.failure) turned.fault = after.failure;

  auto wake_at = [&](TimePoint when) {
    turned.wake_at = turned.wake_at ? std::min(*turned.wake_at, when) : when;
  };
  if (ended()) {
    turned.wake_at.reset();
  } else if (waits()) {
    if (not_before_ && *not_before_ > now) wake_at(*not_before_);
  } else if (std::optional<Duration> left = TimeLeft(now); left && !job().stop) {
    wake_at(now + *left);
  }
  return turned;
}

// Of having slots: waiting does not count.
std::optional<Duration> LiveJob::TimeLeft(TimePoint now) const {
  const std::optional<Duration>& limit = job().spec.time_limit;
  if (!limit) return std::nullopt;
  Goodput used = ledger_.At(now);
  return std::max(Duration::zero(), *limit - (used.total() - used.queued));
}

std::optional<TimePoint> LiveJob::ends_by(TimePoint now) const {
  std::optional<Duration> left = TimeLeft(now);
  if (!left) return std::nullopt;
  if (job().stop) return job().stop->leave_by;
  return now + *left + job().spec.restart.grace;
}

void LiveJob::KeepTimeLimit(TimePoint now) {
  std::optional<Duration> left = TimeLeft(now);
  if (!left || *left > Duration::zero() || ended()) return;
  if (job().stop && job().stop->kind != StopRequest::Kind::kSuspend) return;
  driver_.RequestStop({.kind = StopRequest::Kind::kFail,
                       .leave_by = now + job().spec.restart.grace,
                       .because = absl::StrCat(
                           "its time limit of ",
                           std::chrono::ceil<std::chrono::seconds>(*job().spec.time_limit).count(),
                           " s was over")});
}

// Whoever suspended it here wants it to go on elsewhere: preemption, or a scheduler that signalled
// the ranks themselves. The latter without progress, again and again, is no way to go on.
void LiveJob::Requeue(TimePoint now) {
  bool by_itself = !job().stop;
  driver_.Requeue();
  if (!by_itself) return;
  int attempts = driver_.CountAttempt();
  if (attempts < job().spec.restart.no_progress_limit) return;
  driver_.RequestStop({.kind = StopRequest::Kind::kFail,
                       .leave_by = now,
                       .because = absl::StrCat("its ranks left by themselves, and ", attempts,
                                               " attempts in a row made no progress")});
}

void LiveJob::Account(const JobStatus& before, bool over, TimePoint now) {
  const JobStatus& after = job().status;
  if (after.checkpoint != before.checkpoint) ledger_.Saved(now);
  if (over && after.phase != JobPhase::kSucceeded) ledger_.LoseWork(now);
  bool same = after.phase == before.phase && after.attempt == before.attempt &&
              after.kill_sent == before.kill_sent;
  if (!same || (ledger_.doing() == Doing::kCheckpoint && after.phase == JobPhase::kRunning &&
                after.checkpoint != before.checkpoint)) {
    ledger_.Begin(DoingIn(after), now);
  }
  if (before.phase == JobPhase::kPending && after.phase == JobPhase::kStarting) {
    driver_.SetTimes(clock_.UnixNanos());
  }
  if (ended() && !IsTerminal(before.phase)) driver_.SetTimes(clock_.UnixNanos());
}

void LiveJob::TellChanges(const JobStatus& before) {
  const JobStatus& after = job().status;
  if (!stored_) {
    outbox_.Tell(
        id(), "submitted",
        absl::StrCat(job().spec.name, " by ", job().spec.user, ", priority ", job().spec.priority));
  }
  if (after.checkpoint != before.checkpoint) {
    outbox_.Tell(id(), "checkpoint", Basename(after.checkpoint),
                 Dump({{"path", after.checkpoint}, {"step", after.step}}));
  }
  if (after.failure && after.failure != before.failure) {
    const Failure& failure = *after.failure;
    outbox_.Tell(id(), "fault", Describe(failure),
                 Dump({{"attempt", before.attempt},
                       {"kind", Name(failure.kind)},
                       {"rank", failure.rank},
                       {"exit_code", failure.exit.code},
                       {"signal", failure.exit.signal},
                       {"message", failure.message},
                       {"last_lines", failure.last_lines},
                       {"log_path", failure.log_path}}));
  }
  if (before.phase == JobPhase::kPending && !after.placement.empty() && !ended()) {
    outbox_.Tell(id(), "placed", Text(after.placement),
                 Dump({{"placement", ToJson(after.placement)}}));
  }
  if (after.attempt != before.attempt && after.attempt > 1) {
    outbox_.Tell(
        id(), "restart",
        absl::StrCat(
            "attempt ", after.attempt, " begins",
            after.checkpoint.empty() ? "" : absl::StrCat(" from ", Basename(after.checkpoint))),
        Dump({{"attempt", after.attempt}, {"checkpoint", after.checkpoint}}));
  }
  if (after.phase != before.phase) {
    std::string text = Name(after.phase);
    if (after.phase == JobPhase::kFailed) absl::StrAppend(&text, ": ", after.last_words);
    if (after.phase == JobPhase::kCancelled && job().stop) {
      absl::StrAppend(&text, ": ", job().stop->because);
    }
    if (after.phase == JobPhase::kStopping && job().stop) {
      absl::StrAppend(&text, ": ", job().stop->because);
    }
    outbox_.Tell(id(), "phase", text,
                 Dump({{"phase", Name(after.phase)}, {"attempt", after.attempt}}));
  }
}

void LiveJob::Store() {
  outbox_.Put(StoredJob{.id = id(),
                        .client_token = job().spec.client_token,
                        .terminal = ended(),
                        .document = controller::ToJson(Record(), Clocks::Read(clock_))});
  stored_ = true;
}

JobRecord LiveJob::Record() const {
  JobRecord record{.job = job(), .goodput = ledger_.state(), .last_step_json = last_step_json_};
  if (ended()) record.ranks = observed().ranks;
  return record;
}

void LiveJob::RankEvent(int64_t attempt, int rank, const std::string& json) {
  if (attempt != observed().attempt || rank != 0) return;
  Json event = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!event.is_object() || !event.contains("type")) return;
  const Json& type = event["type"];
  if (type == "step") {
    last_step_json_ = json;
  } else if (type == "checkpoint_begun" && ledger_.doing() == Doing::kProductive) {
    ledger_.Begin(Doing::kCheckpoint, clock_.Now());
  } else if (type == "checkpoint_done" && ledger_.doing() == Doing::kCheckpoint &&
             job().status.phase == JobPhase::kRunning) {
    ledger_.Begin(Doing::kProductive, clock_.Now());
  }
}

}  // namespace am::controller

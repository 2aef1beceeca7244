#include "controller/job/reconciler.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/exit_status.h"
#include "common/file.h"
#include "controller/job/restart_policy.h"
#include "controller/job/root_cause.h"

namespace am::controller {
namespace {

// One call of Reconcile: the edges of the diagram in job.h, numbered as there.
class Turn {
 public:
  Turn(const Job& job, const Observed& seen, TimePoint now)
      : job_(job), seen_(seen), now_(now), decision_{.status = job.status} {}

  Decision Run() {
    switch (job_.status.phase) {
      case JobPhase::kPending:
        FromPending();
        break;
      case JobPhase::kStarting:
      case JobPhase::kRunning:
        FromActive();
        break;
      case JobPhase::kRestarting:
      case JobPhase::kStopping:
        FromStopping();
        break;
      case JobPhase::kSucceeded:
      case JobPhase::kFailed:
      case JobPhase::kCancelled:
        break;
    }
    return std::move(decision_);
  }

 private:
  JobStatus& status() { return decision_.status; }
  void Do(Action action) { decision_.actions.push_back(std::move(action)); }
  void Tell(Announce::Level level, std::string text) { Do(Announce{level, std::move(text)}); }
  void WakeAt(TimePoint when) {
    decision_.wake_at = decision_.wake_at ? std::min(*decision_.wake_at, when) : when;
  }

  void FromPending() {
    if (status().suspended) return;
    if (job_.stop) return Leave(/*saved=*/false);
    if (AgentGone()) return;
    if (seen_.agent_connected) StartAttempt();  // 1
  }

  void FromActive() {
    if (AgentGone()) return;
    if (seen_.start_failed) {
      Lose({.kind = FailureKind::kNotStarted, .message = *seen_.start_failed, .at = now_});
      return;
    }
    if (std::optional<Failure> failure = FindRootCause(seen_);
        failure && !MayBeExplained(*failure)) {
      Lose(*failure);
      return;
    }
    if (!seen_.store_address.empty() && !status().rendezvous_sent) {
      status().rendezvous_sent = true;
      Do(SendRendezvous{status().attempt, seen_.store_address});
    }
    if (status().phase == JobPhase::kStarting && AllReady()) {  // 2
      status().phase = JobPhase::kRunning;
      if (status().attempt > 1) AnnounceRecovery();
    }
    if (seen_.exits > 0 && FromEnding()) return;
    if (job_.stop) {  // 6
      status().phase = JobPhase::kStopping;
      FromStopping();
    }
  }

  // Ranks end well, one after the other. True when the attempt is over or was given up.
  bool FromEnding() {
    if (seen_.empty) {
      if (SomeLeft()) {  // they were told by somebody else: a scheduler that signals every process
        Leave(/*saved=*/true);
      } else {
        status().phase = JobPhase::kSucceeded;  // 3
      }
      return true;
    }
    if (seen_.exits == static_cast<int>(seen_.ranks.size())) return true;  // the sweep is under way
    TimePoint first = now_;
    for (const ObservedRank& rank : seen_.ranks) {
      if (rank.state == ObservedRank::State::kExited) first = std::min(first, rank.exited_at);
    }
    if (now_ < first + job_.spec.restart.grace) {
      WakeAt(first + job_.spec.restart.grace);
      return false;
    }
    int late = 0;
    while (seen_.ranks[late].state == ObservedRank::State::kExited) ++late;
    Lose({.kind = FailureKind::kRank,
          .message = absl::StrCat("rank ", late, " did not end within ",
                                  static_cast<int64_t>(Seconds(job_.spec.restart.grace)),
                                  " s after the first rank had"),
          .log_path = seen_.ranks[late].log_path,
          .at = now_});
    return true;
  }

  void FromStopping() {
    if (AgentGone()) return;
    if (seen_.empty) return Emptied();
    if (status().kill_sent || !job_.stop) return;
    // Where one died while the others were to save together, they would wait for it in vain.
    if (std::optional<Failure> failure = FindRootCause(seen_);
        failure && !MayBeExplained(*failure)) {
      status().failure = failure;
      Tell(Announce::Level::kWarning,
           absl::StrCat(Describe(*failure), " while it was asked to leave"));
      return Kill(absl::StrCat("rank ", failure->rank, " failed"));
    }
    if (now_ >= job_.stop->leave_by) return Kill("its grace was over");
    if (status().leave_sent != job_.stop->leave_by) {
      status().leave_sent = job_.stop->leave_by;
      Do(LeaveRanks{status().attempt, job_.stop->leave_by - now_});
    }
    WakeAt(job_.stop->leave_by);
  }

  // Verified: nothing of the attempt is left running.
  void Emptied() {
    if (!seen_.unkillable_pids.empty()) {
      Tell(Announce::Level::kWarning,
           absl::StrCat("process ", seen_.unkillable_pids.front(),
                        " of this job could not be killed and may hold its device"));
    }
    bool gave_up = status().phase == JobPhase::kStopping && !status().last_words.empty();
    if (gave_up) {  // 8
      status().phase = JobPhase::kFailed;
    } else if (job_.stop) {
      bool failed = FindRootCause(seen_).has_value();
      bool killed = status().kill_sent || failed || status().phase == JobPhase::kRestarting;
      if (!killed && !SomeLeft()) {
        status().phase = JobPhase::kSucceeded;  // it was done before the request reached it
      } else {
        Leave(/*saved=*/!killed);
      }
    } else {
      ++status().restarts;
      StartAttempt();  // 5
    }
  }

  void StartAttempt() {
    status().phase = JobPhase::kStarting;
    ++status().attempt;
    status().best_step = std::max(status().best_step, seen_.step);
    status().rendezvous_sent = false;
    status().leave_sent.reset();
    status().kill_sent = false;
    Do(StartRanks{status().attempt, !seen_.checkpoint.empty()});
  }

  // 4, or 6 where there is no way to go on.
  void Lose(Failure failure) {
    bool progress = seen_.step > status().best_step;
    status().attempts_without_progress = progress ? 0 : status().attempts_without_progress + 1;
    status().failure = failure;
    RestartDecision verdict = DecideRestart(job_.spec.restart, status(), failure);
    std::string cause = Describe(failure);
    if (verdict.restart && !job_.stop) {
      status().phase = JobPhase::kRestarting;
      Tell(Announce::Level::kWarning,
           absl::StrCat(cause, "; restarting", From(), ", attempt ", status().attempt + 1, " of ",
                        job_.spec.restart.max_restarts + 1));
    } else {
      status().phase = JobPhase::kStopping;
      // A job that was asked to leave anyway just leaves, unless it could never have gone on.
      if (!job_.stop || failure.kind == FailureKind::kUser) {
        status().last_words = absl::StrCat(cause, "; ", verdict.why_not);
      } else {
        Tell(Announce::Level::kWarning, cause);
      }
    }
    if (seen_.empty) return Emptied();
    Kill(failure.rank >= 0 ? absl::StrCat("rank ", failure.rank, " failed") : "the attempt failed");
  }

  void Kill(std::string because) {
    status().kill_sent = true;
    Do(KillRanks{status().attempt, std::move(because)});
  }

  void Leave(bool saved) {  // 7
    bool cancel = job_.stop && job_.stop->kind == StopRequest::Kind::kCancel;
    status().phase = cancel ? JobPhase::kCancelled : JobPhase::kPending;
    status().suspended = !cancel;
    status().saved = saved;
  }

  // True while it is away (it may come back), and when it was given up.
  bool AgentGone() {
    if (!seen_.agent_lost_at) return false;
    TimePoint give_up = *seen_.agent_lost_at + kAgentPatience;
    if (now_ < give_up) {
      WakeAt(give_up);
      return true;
    }
    status().failure = Failure{.kind = FailureKind::kAgentLost,
                               .message = "the agent was lost, and its ranks with it",
                               .at = now_};
    status().last_words = status().failure->message;
    status().phase = JobPhase::kFailed;
    return true;
  }

  // Only victims so far, and the one that brought them down may still be on its way (writing a
  // core).
  bool MayBeExplained(const Failure& failure) {
    if (failure.kind != FailureKind::kPeerLost) return false;
    if (seen_.exits == static_cast<int>(seen_.ranks.size())) return false;
    if (now_ >= failure.at + kPeerLostPatience) return false;
    WakeAt(failure.at + kPeerLostPatience);
    return true;
  }

  bool AllReady() const { return std::ranges::all_of(seen_.ranks, &ObservedRank::ready); }

  // Some rank says that it saved and left; one that was done already may have exited with 0.
  bool SomeLeft() const {
    return std::ranges::any_of(seen_.ranks, [](const ObservedRank& rank) {
      return rank.state == ObservedRank::State::kExited && rank.exit.signal == 0 &&
             rank.exit.code == kRankExitSavedAndLeft;
    });
  }

  std::string From() const {
    const std::string& path = seen_.checkpoint.empty() ? seen_.restored_from : seen_.checkpoint;
    if (!path.empty()) return absl::StrCat(" from checkpoint ", Basename(path));
    return seen_.any_ready ? " from the beginning" : "";
  }

  void AnnounceRecovery() {
    std::string text = absl::StrFormat("attempt %d of %d is ready", status().attempt,
                                       job_.spec.restart.max_restarts + 1);
    if (const std::optional<Failure>& failure = status().failure) {
      absl::StrAppendFormat(&text, ", %.2f s after %s", Seconds(now_ - failure->at),
                            failure->rank >= 0 ? absl::StrCat("rank ", failure->rank, " died")
                                               : std::string("the last one failed"));
    }
    Tell(Announce::Level::kInfo, std::move(text));
  }

  const Job& job_;
  const Observed& seen_;
  TimePoint now_;
  Decision decision_;
};

}  // namespace

Decision Reconcile(const Job& job, const Observed& observed, TimePoint now) {
  return Turn(job, observed, now).Run();
}

}  // namespace am::controller

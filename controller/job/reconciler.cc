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
    if (!status().placement.empty()) StartAttempt();  // 1
  }

  void FromActive() {
    if (std::optional<Failure> lost = LostNode()) {
      Lose(*lost);
      return;
    }
    CatchUp();
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
    if (AllEmpty() && AllExited()) {
      if (SomeLeft()) {  // they were told by somebody else: a scheduler that signals every process
        Leave(/*saved=*/true);
      } else {
        status().phase = JobPhase::kSucceeded;  // 3
      }
      return true;
    }
    if (AllExited()) return true;  // the sweep is under way
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
    if (AllEmpty()) return Emptied();
    CatchUp();
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
    bool all_there = std::ranges::all_of(seen_.nodes, &ObservedNode::connected);
    if (gave_up) {  // 8
      status().phase = JobPhase::kFailed;
    } else if (!all_there && !job_.spec.restart.other_nodes) {
      status().failure = LostNode().value_or(
          Failure{.kind = FailureKind::kAgentLost, .message = "the agent was lost", .at = now_});
      status().last_words = status().failure->message;
      status().phase = JobPhase::kFailed;
    } else if (job_.stop) {
      bool failed = FindRootCause(seen_).has_value();
      bool killed = status().kill_sent || failed || status().phase == JobPhase::kRestarting ||
                    !AllExited();  // gone with their node
      if (!killed && !SomeLeft()) {
        status().phase = JobPhase::kSucceeded;  // it was done before the request reached it
      } else {
        Leave(/*saved=*/!killed);
      }
    } else {
      ++status().restarts;
      bool could_not = status().failure && status().failure->kind == FailureKind::kNotStarted;
      if (!all_there || (could_not && job_.spec.restart.other_nodes)) return GiveBack();
      StartAttempt();  // 5
    }
  }

  // Whoever places jobs finds other nodes for it.
  void GiveBack() {
    status().phase = JobPhase::kPending;
    status().placement.clear();
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
    if (AllEmpty()) return Emptied();
    Kill(failure.rank >= 0 ? absl::StrCat("rank ", failure.rank, " failed") : "the attempt failed");
  }

  void Kill(std::string because) {
    status().kill_sent = true;
    Do(KillRanks{status().attempt, std::move(because)});
  }

  void Leave(bool saved) {  // 7
    status().saved = saved;
    // Ranks that left by themselves made no request.
    StopRequest::Kind kind = job_.stop ? job_.stop->kind : StopRequest::Kind::kSuspend;
    switch (kind) {
      case StopRequest::Kind::kCancel:
        status().phase = JobPhase::kCancelled;
        break;
      case StopRequest::Kind::kFail:
        status().phase = JobPhase::kFailed;
        status().last_words = job_.stop->because;
        break;
      case StopRequest::Kind::kSuspend:
        status().phase = JobPhase::kPending;
        status().suspended = true;
        status().placement.clear();
        break;
    }
  }

  // Away for longer than it may be. Until then it may come back, and its ranks go on meanwhile.
  bool GivenUp(const ObservedNode& node) {
    if (!node.lost_at) return false;
    if (now_ >= *node.lost_at + kAgentPatience) return true;
    WakeAt(*node.lost_at + kAgentPatience);
    return false;
  }

  // Nothing of the attempt is left on any node that we know of. A node that was given up is fenced:
  // what it says of this attempt later is void.
  bool AllEmpty() {
    bool all = true;
    for (const ObservedNode& node : seen_.nodes) {
      bool clean = node.empty || (node.connected && !node.knows && node.came_back) || GivenUp(node);
      all = all && clean;
    }
    return all;
  }

  bool HasRanks(const ObservedNode& node) const {
    for (size_t rank = 0; rank < seen_.ranks.size(); ++rank) {
      size_t share =
          static_cast<size_t>(ShareOfRank(job_.status.placement, static_cast<int>(rank)));
      if (seen_.nodes[share].name == node.name &&
          seen_.ranks[rank].state != ObservedRank::State::kUnknown) {
        return true;
      }
    }
    return false;
  }

  std::optional<Failure> LostNode() {
    for (const ObservedNode& node : seen_.nodes) {
      auto lost = [&](std::string message) {
        return Failure{.kind = FailureKind::kAgentLost, .message = std::move(message), .at = now_};
      };
      std::string name = node.name.empty() ? "" : absl::StrCat(" of ", node.name);
      if (GivenUp(node)) {
        std::string why = node.lost_message.empty() ? "" : absl::StrCat(": ", node.lost_message);
        return lost(absl::StrCat("the agent", name, " was lost, and its ranks with it", why));
      }
      bool forgot = node.came_back && !node.knows;
      if (forgot && (status().phase == JobPhase::kRunning || HasRanks(node))) {
        return lost(absl::StrCat("the agent", name, " was started anew; its ranks are gone"));
      }
    }
    return std::nullopt;
  }

  // Tells nodes that came back again what they may have missed.
  void CatchUp() {
    for (const ObservedNode& node : seen_.nodes) {
      if (!node.came_back) continue;
      int64_t attempt = status().attempt;
      if (!node.knows) {
        if (status().phase != JobPhase::kStarting) continue;
        Do(StartRanks{attempt, !seen_.checkpoint.empty(), node.name});
      }
      if (status().rendezvous_sent && !seen_.store_address.empty()) {
        Do(SendRendezvous{attempt, seen_.store_address, node.name});
      }
      if (status().kill_sent) {
        Do(KillRanks{attempt, "the attempt was given up", node.name});
      } else if (status().leave_sent) {
        Do(LeaveRanks{attempt, std::max(Duration{}, *status().leave_sent - now_), node.name});
      }
    }
  }

  // Only victims so far, and the one that brought them down may still be on its way (writing a
  // core).
  bool MayBeExplained(const Failure& failure) {
    if (failure.kind != FailureKind::kPeerLost) return false;
    if (AllExited()) return false;
    if (now_ >= failure.at + kPeerLostPatience) return false;
    WakeAt(failure.at + kPeerLostPatience);
    return true;
  }

  bool AllExited() const { return seen_.exits == static_cast<int>(seen_.ranks.size()); }

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

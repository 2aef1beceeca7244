#include "controller/job/root_cause.h"

#include "absl/strings/str_cat.h"
#include "common/exit_status.h"

namespace am::controller {
namespace {

FailureKind KindOf(const ObservedRank& rank) {
  // The status is the rank's last word; its `failed` event may be of a failure that it survived.
  if (rank.exit.signal != 0) return FailureKind::kSignal;
  if (rank.exit.code == kRankExitUserError) return FailureKind::kUser;
  if (rank.exit.code == kRankExitPeerLost) return FailureKind::kPeerLost;
  return FailureKind::kRank;
}

int Weight(FailureKind kind) {
  if (kind == FailureKind::kUser) return 2;
  return kind == FailureKind::kPeerLost ? 0 : 1;
}

std::string StatusText(int code) {
  switch (code) {
    case kRankExitUserError:
      return "user error";
    case kRankExitInternal:
      return "internal error";
    case kRankExitIo:
      return "I/O error";
    case kRankExitPeerLost:
      return "lost a peer";
    default:
      return "";
  }
}

}  // namespace

bool Failed(const ObservedRank& rank) {
  if (rank.state != ObservedRank::State::kExited || !rank.killed_because.empty()) return false;
  return rank.exit.signal != 0 || (rank.exit.code != 0 && rank.exit.code != kRankExitSavedAndLeft);
}

std::optional<Failure> FindRootCause(const Observed& observed) {
  int root = -1;
  for (int r = 0; r < static_cast<int>(observed.ranks.size()); ++r) {
    const ObservedRank& rank = observed.ranks[r];
    if (!Failed(rank)) continue;
    if (root >= 0) {
      const ObservedRank& best = observed.ranks[root];
      int difference = Weight(KindOf(rank)) - Weight(KindOf(best));
      if (difference < 0 || (difference == 0 && rank.exit_order > best.exit_order)) continue;
    }
    root = r;
  }
  if (root < 0) return std::nullopt;
  const ObservedRank& rank = observed.ranks[root];
  return Failure{.kind = KindOf(rank),
                 .rank = root,
                 .exit = rank.exit,
                 .message = rank.failed_message,
                 .last_lines = rank.last_lines,
                 .log_path = rank.log_path,
                 .at = rank.exited_at};
}

std::string Describe(const Failure& failure) {
  if (failure.rank < 0) return failure.message;
  std::string text = absl::StrCat("rank ", failure.rank);
  if (failure.exit.signal != 0) {
    absl::StrAppend(&text, " was killed by signal ", failure.exit.signal, " (",
                    SignalName(failure.exit.signal),
                    failure.exit.core_dumped ? ", core dumped" : "", ")");
  } else {
    std::string meaning = StatusText(failure.exit.code);
    absl::StrAppend(&text, " exited with status ", failure.exit.code,
                    meaning.empty() ? "" : absl::StrCat(" (", meaning, ")"));
  }
  if (!failure.message.empty()) absl::StrAppend(&text, ": ", failure.message);
  return text;
}

}  // namespace am::controller

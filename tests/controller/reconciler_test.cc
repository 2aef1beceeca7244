// Every (phase, observation) pair, as a table: what the job's phase is after it, and what is sent.
#include "controller/job/reconciler.h"

#include <gmock/gmock.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace am::controller {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr TimePoint kNow{std::chrono::hours(1)};

std::string Text(const Action& action) {
  struct Printer {
    std::string operator()(const StartRanks& start) {
      return absl::StrCat("start ", start.attempt, start.resume_own_checkpoint ? " resume" : "");
    }
    std::string operator()(const SendRendezvous& send) { return "rendezvous " + send.address; }
    std::string operator()(const LeaveRanks& leave) {
      return absl::StrCat("leave ", static_cast<int>(Seconds(leave.grace)));
    }
    std::string operator()(const KillRanks& kill) { return "kill: " + kill.because; }
    std::string operator()(const Announce& news) { return "say: " + news.text; }
  };
  return std::visit(Printer{}, action);
}

// Without what is said, which has tests of its own.
std::vector<std::string> Sent(const Decision& decision) {
  std::vector<std::string> texts;
  for (const Action& action : decision.actions) {
    if (!std::holds_alternative<Announce>(action)) texts.push_back(Text(action));
  }
  return texts;
}

std::string Said(const Decision& decision) {
  std::string all;
  for (const Action& action : decision.actions) {
    if (const auto* news = std::get_if<Announce>(&action)) all += news->text + "\n";
  }
  return all;
}

const Placement kHere = {{.node = "", .slots = {0, 1}}};

// A job of two ranks on one node without a name.
Job JobIn(JobPhase phase) {
  Job job{.spec = {.id = "am-test", .rank_spec_json = "{}", .world_size = 2}};
  job.status.phase = phase;
  job.status.placement = kHere;
  if (phase != JobPhase::kPending) job.status.attempt = 1;
  return job;
}

void AskToLeave(Job& job, StopRequest::Kind kind = StopRequest::Kind::kSuspend) {
  job.stop = StopRequest{.kind = kind, .leave_by = kNow + seconds(60), .because = "SIGTERM"};
}

using Reports = std::vector<Observation>;

Observed Seen(const Job& job, const Reports& reports) {
  Observed observed;
  BeginAttempt(job.status.attempt, job.spec.world_size, job.status.placement, observed);
  for (const Observation& report : reports) EXPECT_TRUE(Apply(report, kNow, observed));
  return observed;
}

RankExited Exit(int rank, int code) { return {.attempt = 1, .rank = rank, .exit = {.code = code}}; }
RankExited Killed(int rank, int signal) {
  return {.attempt = 1, .rank = rank, .exit = {.signal = signal}};
}
RankExited Stopped(int rank) {
  return {.attempt = 1, .rank = rank, .exit = {.signal = 9}, .killed_because = "rank 1 failed"};
}

struct Row {
  std::string name;
  JobPhase phase;
  Reports reports;
  JobPhase after;
  std::vector<std::string> sent = {};
  std::function<void(Job&)> prepare = {};
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }

const AgentConnected kCameBack{.knows = 1}, kCameAnew;
const RankReady kReady0{.attempt = 1, .rank = 0}, kReady1{.attempt = 1, .rank = 1};
const AttemptEmpty kEmpty{.attempt = 1};
const StoreListening kStore{.attempt = 1, .address = "127.0.0.1:5"};
const StartFailed kStartFailed{.attempt = 1, .message = "cannot execute am-rank"};
const AgentLost kLost;

const auto kLeave = [](Job& job) { AskToLeave(job); };
const auto kCancel = [](Job& job) { AskToLeave(job, StopRequest::Kind::kCancel); };
const auto kLeaveSent = [](Job& job) {
  AskToLeave(job);
  job.status.leave_sent = job.stop->leave_by;
};
const auto kKillSent = [](Job& job) {
  AskToLeave(job);
  job.status.leave_sent = job.stop->leave_by;
  job.status.kill_sent = true;
};
const auto kGivenUp = [](Job& job) {
  job.status.kill_sent = true;
  job.status.last_words = "rank 1 failed for good";
};
const auto kRestartKill = [](Job& job) { job.status.kill_sent = true; };
const auto kNoRestarts = [](Job& job) { job.spec.restart.max_restarts = 0; };
const auto kOtherNodes = [](Job& job) { job.spec.restart.other_nodes = true; };
const auto kRendezvousSent = [](Job& job) { job.status.rendezvous_sent = true; };

using enum JobPhase;

const Row kRows[] = {
    // Pending
    {"PendingWaitsForAPlacement",
     kPending,
     {},
     kPending,
     {},
     [](Job& job) { job.status.placement.clear(); }},
    {"PendingStartsWhenItIsPlaced", kPending, {}, kStarting, {"start 1"}},
    {"PendingThatIsAskedToLeaveNeverStarts", kPending, {}, kPending, {}, kLeave},
    {"PendingIsCancelledAtOnce", kPending, {}, kCancelled, {}, kCancel},
    {"PendingFailsWhenItsTimeIsOver",
     kPending,
     {},
     kFailed,
     {},
     [](Job& job) { AskToLeave(job, StopRequest::Kind::kFail); }},
    {"SuspendedStaysPending",
     kPending,
     {},
     kPending,
     {},
     [](Job& job) { job.status.suspended = true; }},
    // Starting
    {"StartingWaitsForAllRanks", kStarting, {kReady0}, kStarting},
    {"StartingRunsWhenAllAreReady", kStarting, {kReady0, kReady1}, kRunning},
    {"StartingPassesTheStoresAddressOn",
     kStarting,
     {kStore},
     kStarting,
     {"rendezvous 127.0.0.1:5"}},
    {"StartingPassesItOnOnce", kStarting, {kStore}, kStarting, {}, kRendezvousSent},
    {"StartingFailsWhenRanksCannotBeStarted",
     kStarting,
     {kStartFailed},
     kStopping,
     {"kill: the attempt failed"}},
    {"StartingFailsAtOnceWhenNothingWasStarted", kStarting, {kStartFailed, kEmpty}, kFailed},
    {"StartingGivesItsPlaceBackWhereAnotherMayStartIt",
     kStarting,
     {kStartFailed, kEmpty},
     kPending,
     {},
     kOtherNodes},
    {"StartingRestartsWhenARankDiesBeforeItSaysHello",
     kStarting,
     {Killed(1, 9)},
     kRestarting,
     {"kill: rank 1 failed"}},
    {"StartingLeavesWhenAsked", kStarting, {kReady0}, kStopping, {"leave 60"}, kLeave},
    {"StartingWaitsForALostAgent", kStarting, {kLost}, kStarting},
    {"StartingTellsAnAgentAgainThatMissedIt",
     kStarting,
     {kLost, kCameAnew},
     kStarting,
     {"start 1"}},
    {"StartingTellsAnAgentThatMissedAllOfIt",
     kStarting,
     {kStore, kLost, kCameAnew},
     kStarting,
     {"start 1", "rendezvous 127.0.0.1:5"},
     kRendezvousSent},
    {"StartingTellsTheStoresAddressAgain",
     kStarting,
     {kStore, kLost, kCameBack},
     kStarting,
     {"rendezvous 127.0.0.1:5"},
     kRendezvousSent},
    {"StartingFailsWhenAnAgentForgotRanksThatItHadStarted",
     kStarting,
     {kReady0, RankStarted{.attempt = 1, .rank = 0}, kLost, kCameAnew},
     kFailed},
    {"StartingEndsWellWithoutBecomingReady",
     kStarting,
     {Exit(0, 0), Exit(1, 0), kEmpty},
     kSucceeded},
    // Running
    {"RunningGoesOn", kRunning, {kReady0, kReady1}, kRunning},
    {"RunningRestartsWhenARankIsKilled",
     kRunning,
     {kReady0, kReady1, Killed(1, 9)},
     kRestarting,
     {"kill: rank 1 failed"}},
    {"RunningRestartsWhenARankFails",
     kRunning,
     {Exit(1, 70)},
     kRestarting,
     {"kill: rank 1 failed"}},
    {"RunningRestartsAtOnceWhenNothingIsLeft",
     kRunning,
     {Exit(1, 70), Stopped(0), kEmpty},
     kStarting,
     {"start 2"}},
    {"RunningFailsOnAUserError", kRunning, {Exit(1, 2)}, kStopping, {"kill: rank 1 failed"}},
    {"RunningFailsWhenNoRestartIsLeft",
     kRunning,
     {Exit(1, 70)},
     kStopping,
     {"kill: rank 1 failed"},
     kNoRestarts},
    {"RunningWaitsForTheReasonBehindALostPeer", kRunning, {Exit(0, 76)}, kRunning},
    {"RunningRestartsWhenAllLostAPeer",
     kRunning,
     {Exit(0, 76), Exit(1, 76)},
     kRestarting,
     {"kill: rank 0 failed"}},
    {"RunningWaitsForTheLastRank", kRunning, {Exit(0, 0)}, kRunning},
    {"RunningWaitsForTheSweep", kRunning, {Exit(0, 0), Exit(1, 0)}, kRunning},
    {"RunningSucceeds", kRunning, {Exit(0, 0), Exit(1, 0), kEmpty}, kSucceeded},
    {"RunningIsSuspendedWhenTheRanksLeftByThemselves",
     kRunning,
     {Exit(0, 75), Exit(1, 75), kEmpty},
     kPending},
    {"RunningLeavesWhenAsked", kRunning, {kReady0}, kStopping, {"leave 60"}, kLeave},
    {"RunningIsCancelledByLeaving", kRunning, {kReady0}, kStopping, {"leave 60"}, kCancel},
    {"RunningThatFailsWhileAskedToLeaveIsKilled",
     kRunning,
     {Killed(1, 9)},
     kStopping,
     {"kill: rank 1 failed"},
     kLeave},
    {"RunningWaitsForALostAgent", kRunning, {kLost}, kRunning},
    {"RunningGoesOnWhenTheAgentComesBack", kRunning, {kLost, kCameBack}, kRunning},
    {"RunningFailsWhenTheAgentWasStartedAnew", kRunning, {kLost, kCameAnew}, kFailed},
    {"RunningRestartsWhereAnAgentWasStartedAnew",
     kRunning,
     {kLost, kCameAnew},
     kStarting,
     {"start 2"},
     kOtherNodes},
    // Restarting
    {"RestartingWaitsUntilNothingIsLeft",
     kRestarting,
     {Killed(1, 9)},
     kRestarting,
     {},
     kRestartKill},
    {"RestartingBeginsTheNextAttempt",
     kRestarting,
     {Killed(1, 9), Stopped(0), kEmpty},
     kStarting,
     {"start 2"},
     kRestartKill},
    {"RestartingGoesOnFromItsOwnCheckpoint",
     kRestarting,
     {CheckpointDone{1, 10, "c/epoch_0_step_10"}, Killed(1, 9), Stopped(0), kEmpty},
     kStarting,
     {"start 2 resume"},
     kRestartKill},
    {"RestartingThatIsAskedToLeaveDoes",
     kRestarting,
     {Killed(1, 9), Stopped(0), kEmpty},
     kPending,
     {},
     kKillSent},
    {"RestartingWaitsForALostAgent", kRestarting, {kLost}, kRestarting},
    {"RestartingKillsAgainWhenTheAgentComesBack",
     kRestarting,
     {kLost, kCameBack},
     kRestarting,
     {"kill: the attempt was given up"},
     kRestartKill},
    // Stopping
    {"StoppingWaits", kStopping, {kReady0, kReady1}, kStopping, {}, kLeaveSent},
    {"StoppingIsSuspendedWhenAllHaveLeft",
     kStopping,
     {Exit(0, 75), Exit(1, 75), kEmpty},
     kPending,
     {},
     kLeaveSent},
    {"StoppingIsCancelledWhenAllHaveLeft",
     kStopping,
     {Exit(0, 75), Exit(1, 75), kEmpty},
     kCancelled,
     {},
     kCancel},
    {"StoppingSucceedsWhenTheJobWasDoneAnyway",
     kStopping,
     {Exit(0, 0), Exit(1, 0), kEmpty},
     kSucceeded,
     {},
     kLeaveSent},
    {"StoppingIsNoSuccessWhenTheRanksAreGoneWithTheirNode",
     kStopping,
     {kReady0, kReady1, kLost, kCameAnew},
     kPending,
     {},
     [](Job& job) {
       kLeaveSent(job);
       kOtherNodes(job);
     }},
    {"StoppingFailsWhenItsTimeIsOver",
     kStopping,
     {Exit(0, 75), Exit(1, 75), kEmpty},
     kFailed,
     {},
     [](Job& job) { AskToLeave(job, StopRequest::Kind::kFail); }},
    {"StoppingKillsWhenOneDies",
     kStopping,
     {Killed(0, 11)},
     kStopping,
     {"kill: rank 0 failed"},
     kLeaveSent},
    {"StoppingKillsOnce", kStopping, {Killed(0, 11)}, kStopping, {}, kKillSent},
    {"StoppingIsSuspendedWhenKilled",
     kStopping,
     {Stopped(0), Stopped(1), kEmpty},
     kPending,
     {},
     kKillSent},
    {"StoppingAfterGivingUpFails",
     kStopping,
     {Exit(1, 70), Stopped(0), kEmpty},
     kFailed,
     {},
     kGivenUp},
    {"StoppingAfterGivingUpWaitsUntilNothingIsLeft",
     kStopping,
     {Exit(1, 70)},
     kStopping,
     {},
     kGivenUp},
    {"StoppingWaitsForALostAgent", kStopping, {kLost}, kStopping, {}, kLeaveSent},
    // Terminal phases come last.
    {"SucceededStays", kSucceeded, {Killed(1, 9)}, kSucceeded, {}, kLeave},
    {"FailedStays", kFailed, {kCameAnew}, kFailed, {}, kLeave},
    {"CancelledStays", kCancelled, {kCameBack}, kCancelled},
};

class ReconcilerTable : public testing::TestWithParam<Row> {};

TEST_P(ReconcilerTable, Decides) {
  const Row& row = GetParam();
  Job job = JobIn(row.phase);
  if (row.prepare) row.prepare(job);
  Decision decision = Reconcile(job, Seen(job, row.reports), kNow);
  EXPECT_STREQ(Name(decision.status.phase), Name(row.after));
  EXPECT_EQ(Sent(decision), row.sent);
}

TEST_P(ReconcilerTable, SendsNothingTwiceForTheSamePicture) {
  const Row& row = GetParam();
  Job job = JobIn(row.phase);
  if (row.prepare) row.prepare(job);
  Observed observed = Seen(job, row.reports);
  Decision first = Reconcile(job, observed, kNow);
  if (first.status.attempt != job.status.attempt)
    BeginAttempt(first.status.attempt, 2, kHere, observed);
  job.status = first.status;
  for (ObservedNode& node : observed.nodes) node.came_back = false;  // as the driver does
  Decision second = Reconcile(job, observed, kNow);
  EXPECT_THAT(second.actions, IsEmpty());
  EXPECT_STREQ(Name(second.status.phase), Name(first.status.phase));
}

INSTANTIATE_TEST_SUITE_P(Rows, ReconcilerTable, testing::ValuesIn(kRows),
                         [](const auto& info) { return info.param.name; });

// ---- time ----

TEST(Reconciler, KillsWhatHasNotLeftWhenTheGraceIsOver) {
  Job job = JobIn(kRunning);
  AskToLeave(job);
  Observed observed = Seen(job, {kReady0, kReady1});
  Decision asked = Reconcile(job, observed, kNow);
  EXPECT_EQ(asked.wake_at, kNow + seconds(60));
  job.status = asked.status;
  EXPECT_THAT(Sent(Reconcile(job, observed, kNow + seconds(60))),
              ElementsAre("kill: its grace was over"));
}

TEST(Reconciler, ASecondRequestShortensTheGrace) {
  Job job = JobIn(kRunning);
  AskToLeave(job);
  Observed observed = Seen(job, {kReady0, kReady1});
  job.status = Reconcile(job, observed, kNow).status;
  job.stop->leave_by = kNow + seconds(5);
  Decision again = Reconcile(job, observed, kNow + seconds(1));
  EXPECT_THAT(Sent(again), ElementsAre("leave 4"));
  EXPECT_EQ(again.wake_at, kNow + seconds(5));
  job.status = again.status;
  job.stop->leave_by = kNow + seconds(2);
  EXPECT_THAT(Sent(Reconcile(job, observed, kNow + seconds(2))),
              ElementsAre("kill: its grace was over"));
}

TEST(Reconciler, TakesALostPeerAsTheCauseWhenNoBetterOneComes) {
  Job job = JobIn(kRunning);
  Observed observed = Seen(job, {Exit(0, 76)});
  Decision waiting = Reconcile(job, observed, kNow);
  EXPECT_EQ(waiting.wake_at, kNow + seconds(1));
  Decision given_up = Reconcile(job, observed, kNow + seconds(1));
  EXPECT_STREQ(Name(given_up.status.phase), "Restarting");
  EXPECT_EQ(given_up.status.failure->kind, FailureKind::kPeerLost);
}

TEST(Reconciler, ARankThatDoesNotEndWithTheOthersFailsTheAttempt) {
  Job job = JobIn(kRunning);
  Observed observed = Seen(job, {Exit(0, 0)});
  EXPECT_EQ(Reconcile(job, observed, kNow).wake_at, kNow + seconds(60));
  Decision late = Reconcile(job, observed, kNow + seconds(60));
  EXPECT_STREQ(Name(late.status.phase), "Restarting");
  EXPECT_THAT(Said(late), HasSubstr("rank 1 did not end within 60 s after the first rank had"));
}

TEST(Reconciler, GivesUpAnAgentThatDoesNotComeBack) {
  for (JobPhase phase : {kStarting, kRunning, kRestarting, kStopping}) {
    Job job = JobIn(phase);
    Observed observed = Seen(job, {kLost});
    EXPECT_EQ(Reconcile(job, observed, kNow).wake_at, kNow + kAgentPatience);
    Decision decision = Reconcile(job, observed, kNow + kAgentPatience);
    EXPECT_STREQ(Name(decision.status.phase), "Failed") << Name(phase);
  }
}

// ---- several nodes ----

Job OnTwoNodes(JobPhase phase) {
  Job job = JobIn(phase);
  job.status.placement = {{.node = "a", .slots = {0}}, {.node = "b", .slots = {0}}};
  job.spec.restart.other_nodes = true;
  return job;
}

TEST(Nodes, AreEmptyOnlyTogether) {
  Job job = OnTwoNodes(kRunning);
  Observed observed = Seen(job, {Exit(0, 0), Exit(1, 0), AttemptEmpty{1, {}, "a"}});
  EXPECT_STREQ(Name(Reconcile(job, observed, kNow).status.phase), "Running");
  Apply(AttemptEmpty{1, {}, "b"}, kNow, observed);
  EXPECT_STREQ(Name(Reconcile(job, observed, kNow).status.phase), "Succeeded");
}

TEST(Nodes, ThatAreLostSendTheJobToOthers) {
  Job job = OnTwoNodes(kRunning);
  Observed observed = Seen(job, {kReady0, kReady1, AgentLost{"b", "its stream was closed"}});
  Decision waiting = Reconcile(job, observed, kNow);
  EXPECT_STREQ(Name(waiting.status.phase), "Running");
  EXPECT_EQ(waiting.wake_at, kNow + kAgentPatience);
  Decision lost = Reconcile(job, observed, kNow + kAgentPatience);
  EXPECT_STREQ(Name(lost.status.phase), "Restarting");
  EXPECT_THAT(Said(lost), HasSubstr("the agent of b was lost, and its ranks with it"));
  job.status = lost.status;
  Apply(AttemptEmpty{1, {}, "a"}, kNow, observed);
  Decision given_back = Reconcile(job, observed, kNow + kAgentPatience);
  EXPECT_STREQ(Name(given_back.status.phase), "Pending");
  EXPECT_THAT(given_back.status.placement, IsEmpty());
  EXPECT_FALSE(given_back.status.suspended);
  EXPECT_EQ(given_back.status.restarts, 1);
}

TEST(Nodes, OfStrangersAreVoid) {
  Job job = OnTwoNodes(kRunning);
  Observed observed = Seen(job, {});
  EXPECT_FALSE(Apply(AttemptEmpty{1, {}, "c"}, kNow, observed));
  EXPECT_FALSE(Apply(AgentLost{"c", ""}, kNow, observed));
}

// ---- restarts ----

// Runs attempts that all end in the same way, and counts them.
int AttemptsUntilFailed(Job job, int64_t steps_of_attempt_n_times) {
  Observed observed;
  for (int turn = 0; turn < 100; ++turn) {
    Decision decision = Reconcile(job, observed, kNow);
    if (decision.status.attempt != job.status.attempt)
      BeginAttempt(decision.status.attempt, 2, kHere, observed);
    job.status = decision.status;
    int64_t attempt = job.status.attempt;
    if (job.status.phase == kFailed) return static_cast<int>(attempt);
    Apply(RankStepped{attempt, attempt * steps_of_attempt_n_times}, kNow, observed);
    Apply(RankExited{.attempt = attempt, .rank = 1, .exit = {.signal = 9}}, kNow, observed);
    Apply(AttemptEmpty{attempt}, kNow, observed);
  }
  return -1;
}

TEST(Restarts, EndAfterMaxRestarts) {
  Job job = JobIn(kPending);
  EXPECT_EQ(AttemptsUntilFailed(job, 10), 4);
  job.spec.restart.max_restarts = 1;
  EXPECT_EQ(AttemptsUntilFailed(job, 10), 2);
  job.spec.restart.max_restarts = 0;
  EXPECT_EQ(AttemptsUntilFailed(job, 10), 1);
}

TEST(Restarts, EndEarlierWhenAttemptsMakeNoProgress) {
  Job job = JobIn(kPending);
  job.spec.restart.max_restarts = 50;
  EXPECT_EQ(AttemptsUntilFailed(job, 0), 3);
  EXPECT_EQ(AttemptsUntilFailed(job, 1), 51);
}

TEST(Restarts, SayTheCauseTheCheckpointAndTheAttempt) {
  Job job = JobIn(kRunning);
  Decision decision =
      Reconcile(job,
                Seen(job, {kReady0, kReady1,
                           CheckpointDone{1, 10, "/x/checkpoints/epoch_0_step_10"}, Killed(1, 9)}),
                kNow);
  EXPECT_EQ(Said(decision),
            "rank 1 was killed by signal 9 (SIGKILL); restarting from checkpoint epoch_0_step_10, "
            "attempt 2 of 4\n");
}

TEST(Restarts, SayThatNothingWasSavedYet) {
  Job job = JobIn(kRunning);
  EXPECT_THAT(
      Said(Reconcile(job, Seen(job, {kReady0, kReady1, Exit(0, 70)}), kNow)),
      HasSubstr("rank 0 exited with status 70 (internal error); restarting from the beginning, "));
}

TEST(Restarts, SayHowLongTheyTook) {
  Job job = JobIn(kStarting);
  job.status.attempt = 2;
  job.status.failure = Failure{.kind = FailureKind::kSignal,
                               .rank = 1,
                               .exit = {.signal = 9},
                               .at = kNow - std::chrono::milliseconds(1250)};
  Observed observed = Seen(job, {RankReady{2, 0}, RankReady{2, 1}});
  EXPECT_EQ(Said(Reconcile(job, observed, kNow)),
            "attempt 2 of 4 is ready, 1.25 s after rank 1 died\n");
}

TEST(Restarts, AUserErrorIsNotRetried) {
  Job job = JobIn(kRunning);
  Decision decision = Reconcile(
      job, Seen(job, {RankFailed{1, 1, "user", "data.jsonl:3: not JSON"}, Exit(1, 2)}), kNow);
  EXPECT_EQ(decision.status.last_words,
            "rank 1 exited with status 2 (user error): data.jsonl:3: not JSON; not retried: it "
            "would end the "
            "same way");
}

// ---- leaving ----

TEST(Leaving, IsSavedOnlyWhenEveryRankSaysSo) {
  Job job = JobIn(kStopping);
  kLeaveSent(job);
  EXPECT_TRUE(Reconcile(job, Seen(job, {Exit(0, 75), Exit(1, 75), kEmpty}), kNow).status.saved);
  EXPECT_FALSE(Reconcile(job, Seen(job, {Exit(0, 75), Exit(1, 70), kEmpty}), kNow).status.saved);
  kKillSent(job);
  EXPECT_FALSE(Reconcile(job, Seen(job, {Stopped(0), Stopped(1), kEmpty}), kNow).status.saved);
}

TEST(Leaving, TellsOfAProcessThatCannotBeKilled) {
  Job job = JobIn(kStopping);
  kKillSent(job);
  EXPECT_THAT(Said(Reconcile(job, Seen(job, {AttemptEmpty{1, {4711}}}), kNow)),
              HasSubstr("process 4711"));
}

}  // namespace
}  // namespace am::controller

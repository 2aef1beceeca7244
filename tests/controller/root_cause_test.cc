#include "controller/job/root_cause.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace am::controller {
namespace {

const Placement kHere = {{.node = "", .slots = {0, 1}}};

Observed After(int world_size, const std::vector<RankExited>& exits) {
  Observed observed;
  BeginAttempt(1, world_size, kHere, observed);
  for (const RankExited& exit : exits) Apply(exit, TimePoint{}, observed);
  return observed;
}

RankExited Code(int rank, int code) { return {.attempt = 1, .rank = rank, .exit = {.code = code}}; }
RankExited Signal(int rank, int signal) {
  return {.attempt = 1, .rank = rank, .exit = {.signal = signal}};
}

TEST(RootCause, IsTheFirstRankThatFailed) {
  EXPECT_EQ(FindRootCause(After(4, {Signal(3, 9), Signal(0, 11), Code(1, 70)}))->rank, 3);
}

TEST(RootCause, IsNotARankThatLostAPeerWhereAnotherHasAReason) {
  EXPECT_EQ(FindRootCause(After(4, {Code(0, 76), Code(1, 76), Signal(3, 11)}))->rank, 3);
  EXPECT_EQ(FindRootCause(After(2, {Code(1, 76)}))->kind, FailureKind::kPeerLost);
}

TEST(RootCause, IsAUserErrorWhereverItComes) {
  EXPECT_EQ(FindRootCause(After(3, {Code(0, 70), Code(2, 2)}))->rank, 2);
}

TEST(RootCause, IsNoneWhereAllEndedWellOrLeft) {
  EXPECT_FALSE(FindRootCause(After(3, {Code(0, 0), Code(1, 75)})).has_value());
}

TEST(RootCause, IsNeverARankThatWasStopped) {
  RankExited stopped = Signal(0, 9);
  stopped.killed_because = "rank 1 failed";
  EXPECT_FALSE(FindRootCause(After(2, {stopped})).has_value());
}

TEST(RootCause, ReadsAsASentence) {
  RankExited crashed = Signal(1, 11);
  crashed.exit.core_dumped = true;
  EXPECT_EQ(Describe(*FindRootCause(After(2, {crashed}))),
            "rank 1 was killed by signal 11 (SIGSEGV, core dumped)");
  EXPECT_EQ(Describe(*FindRootCause(After(2, {Code(1, 3)}))), "rank 1 exited with status 3");
  Observed observed;
  BeginAttempt(1, 1, kHere, observed);
  Apply(RankFailed{1, 0, "io", "disk full"}, TimePoint{}, observed);
  Apply(Code(0, 74), TimePoint{}, observed);
  EXPECT_EQ(Describe(*FindRootCause(observed)),
            "rank 0 exited with status 74 (I/O error): disk full");
}

TEST(Observations, OfAnotherAttemptAreVoid) {
  Observed observed;
  BeginAttempt(2, 2, kHere, observed);
  EXPECT_FALSE(Apply(Signal(0, 9), TimePoint{}, observed));
  EXPECT_FALSE(Apply(AttemptEmpty{1}, TimePoint{}, observed));
  EXPECT_FALSE(Apply(RankReady{3, 0}, TimePoint{}, observed));
  EXPECT_EQ(observed.exits, 0);
  EXPECT_FALSE(observed.nodes[0].empty);
  EXPECT_FALSE(observed.any_ready);
}

TEST(Observations, OfARankThatTheJobDoesNotHaveAreVoid) {
  Observed observed;
  BeginAttempt(1, 2, kHere, observed);
  EXPECT_FALSE(Apply(Code(2, 70), TimePoint{}, observed));
  EXPECT_FALSE(Apply(Code(-1, 70), TimePoint{}, observed));
}

TEST(Observations, ANewAttemptKeepsTheJobsCheckpointAndNothingElse) {
  Observed observed;
  BeginAttempt(1, 2, kHere, observed);
  Apply(CheckpointDone{1, 10, "c/epoch_0_step_10"}, TimePoint{}, observed);
  Apply(RankStepped{1, 12}, TimePoint{}, observed);
  Apply(Signal(0, 9), TimePoint{}, observed);
  BeginAttempt(2, 2, kHere, observed);
  EXPECT_EQ(observed.checkpoint, "c/epoch_0_step_10");
  EXPECT_EQ(observed.step, 0);
  EXPECT_FALSE(FindRootCause(observed).has_value());
}

}  // namespace
}  // namespace am::controller

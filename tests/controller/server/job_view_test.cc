#include "controller/server/job_view.h"

#include <gtest/gtest.h>

#include "tests/fakes/fake_clock.h"

namespace am::controller {
namespace {

Job In(JobPhase phase, std::optional<FailureKind> kind = {}) {
  Job job;
  job.status.phase = phase;
  if (kind) job.status.failure = Failure{.kind = *kind};
  return job;
}

TEST(ExitStatus, SaysHowTheJobEnded) {
  EXPECT_EQ(ExitStatusOf(In(JobPhase::kSucceeded), false), 0);
  EXPECT_EQ(ExitStatusOf(In(JobPhase::kSucceeded), true), 0)
      << "it was done before Ctrl-C reached it";
  EXPECT_EQ(ExitStatusOf(In(JobPhase::kPending), false), 75);
  EXPECT_EQ(ExitStatusOf(In(JobPhase::kPending), true), 130);
  EXPECT_EQ(ExitStatusOf(In(JobPhase::kCancelled), false), 5);
  EXPECT_EQ(ExitStatusOf(In(JobPhase::kFailed, FailureKind::kUser), false), 2);
  EXPECT_EQ(ExitStatusOf(In(JobPhase::kFailed, FailureKind::kRank), false), 1);
  EXPECT_EQ(ExitStatusOf(In(JobPhase::kFailed, FailureKind::kSignal), false), 6);
  EXPECT_EQ(ExitStatusOf(In(JobPhase::kFailed, FailureKind::kPeerLost), false), 6);
  EXPECT_EQ(ExitStatusOf(In(JobPhase::kFailed, FailureKind::kNotStarted), false), 6);
  EXPECT_EQ(ExitStatusOf(In(JobPhase::kFailed, FailureKind::kAgentLost), false), 6);
}

TEST(JobView, ShowsTheRanksWithTheirNodesAndHowTheyEnded) {
  JobReport report;
  report.job.spec = {.id = "am-aaaaaaaaaa", .world_size = 3, .name = "sft", .total_steps = 9};
  report.job.status.phase = JobPhase::kRunning;
  report.job.status.placement = {{"one", {0, 1}}, {"two", {0}}};
  report.observed.step = 4;
  report.observed.ranks.resize(3);
  report.observed.ranks[0] = {.state = ObservedRank::State::kStarted, .ready = true};
  report.observed.ranks[2] = {.state = ObservedRank::State::kExited,
                              .exit = {.signal = 9},
                              .killed_because = "rank 1 failed"};
  report.last_step_json = R"({"loss": 1.5, "tps": 100})";
  report.goodput.queued = std::chrono::seconds(2);
  amctl::v1::Job job = ToMessage(report, true);
  EXPECT_EQ(job.phase(), "Running");
  EXPECT_EQ(job.step(), 4);
  EXPECT_EQ(job.loss(), 1.5);
  EXPECT_EQ(job.tokens_per_s(), 100);
  EXPECT_EQ(job.goodput().queued(), 2);
  ASSERT_EQ(job.ranks_size(), 3);
  EXPECT_EQ(job.ranks(0).state(), "ready");
  EXPECT_EQ(job.ranks(1).state(), "waiting");
  EXPECT_EQ(job.ranks(1).node(), "one");
  EXPECT_EQ(job.ranks(2).node(), "two");
  EXPECT_EQ(job.ranks(2).signal(), 9);
  EXPECT_EQ(job.ranks(2).stopped_because(), "rank 1 failed");
  EXPECT_EQ(ToMessage(report, false).ranks_size(), 0);
}

TEST(NodeView, SaysWhenItWasHeardOfAndWhatIsFree) {
  FakeClock clock;
  NodeStatus status{.hello = {.name = "one", .gpus = 0, .cpu_slots = 4}, .free_slots = 3};
  status.last_heard = clock.Now() - std::chrono::seconds(5);
  amctl::v1::Node node = ToMessage(status, clock);
  EXPECT_EQ(node.state(), "up");
  EXPECT_EQ(node.slots(), 4);
  EXPECT_EQ(node.free_slots(), 3);
  EXPECT_EQ(node.last_heard_unix_ns(), clock.UnixNanos() - 5'000'000'000);
  status.drained = true;
  status.reason = "fan";
  EXPECT_EQ(ToMessage(status, clock).state(), "drained");
  EXPECT_EQ(ToMessage(status, clock).why(), "fan");
  status.state = NodeState::kLost;
  EXPECT_EQ(ToMessage(status, clock).state(), "lost");
}

}  // namespace
}  // namespace am::controller

// Stories of jobs, from submit to end.
#include "controller/daemon/controller.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "tests/controller/daemon/world.h"

namespace am::controller {
namespace {

using std::chrono::seconds;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

JobSpec Spec(const std::string& name, int nodes = 1, int ranks = 1) {
  return {.restart = {.grace = seconds(10)},
          .name = name,
          .user = "ada",
          .demand = {.nodes = nodes, .ranks_per_node = ranks}};
}

class ControllerTest : public testing::Test {
 protected:
  ~ControllerTest() override {
    if (!world_.up()) return;
    world_.CheckEvents();
    EXPECT_THAT(world_.violations, IsEmpty());
  }

  std::string Submit(JobSpec spec, const std::string& token = "") {
    absl::StatusOr<std::string> id = world_.Submit(std::move(spec), token);
    EXPECT_TRUE(id.ok()) << id.status();
    return id.value_or("");
  }

  std::vector<std::string> Nodes(const std::string& id) {
    std::vector<std::string> names;
    for (const NodeShare& share : world_.Report(id).job.status.placement)
      names.push_back(share.node);
    return names;
  }

  World world_{{{"n1", 2}, {"n2", 2}, {"n3", 2}}};
};

TEST_F(ControllerTest, RunsAJobToItsEnd) {
  std::string id = Submit(Spec("sft", 2, 2));
  EXPECT_EQ(world_.Phase(id), JobPhase::kStarting);
  EXPECT_TRUE(world_.RunToTheEnd(60));
  JobReport report = world_.Report(id);
  EXPECT_EQ(report.job.status.phase, JobPhase::kSucceeded);
  EXPECT_EQ(report.observed.step, 4);
  EXPECT_EQ(report.observed.checkpoint, "step_4");
  EXPECT_EQ(report.observed.ranks.size(), 4u);
  EXPECT_GT(report.ended_unix_ns, report.started_unix_ns);
  EXPECT_THAT(world_.Kinds(id), ElementsAre("submitted", "placed", "Starting", "Running",
                                            "checkpoint", "checkpoint", "Succeeded"));
  EXPECT_EQ(world_.live_attempts(), 0);
}

TEST_F(ControllerTest, RestartsWhenARankDies) {
  world_.scripts["sft"].dies_at = {{1, 3}};
  std::string id = Submit(Spec("sft", 2));
  EXPECT_TRUE(world_.RunToTheEnd(60));
  JobReport report = world_.Report(id);
  EXPECT_EQ(report.job.status.phase, JobPhase::kSucceeded);
  EXPECT_EQ(report.job.status.restarts, 1);
  EXPECT_GT(report.goodput.lost_work, Duration::zero());
  EXPECT_GT(report.goodput.recovery, Duration::zero());
  EXPECT_THAT(world_.Kinds(id), Contains("fault"));
  EXPECT_THAT(world_.Kinds(id), Contains("restart"));
}

TEST_F(ControllerTest, FailsForGoodOnAUserError) {
  world_.scripts["sft"].user_error_at = 1;
  std::string id = Submit(Spec("sft"));
  EXPECT_TRUE(world_.RunToTheEnd(60));
  EXPECT_EQ(world_.Phase(id), JobPhase::kFailed);
  EXPECT_THAT(world_.Report(id).why, HasSubstr("user error"));
}

TEST_F(ControllerTest, TriesAgainWhereRanksCannotBeStarted) {
  world_.scripts["sft"].not_started = 2;
  world_.scripts["never"].not_started = 100;
  std::string id = Submit(Spec("sft", 2));
  std::string never = Submit(Spec("never"));
  EXPECT_EQ(world_.Phase(id), JobPhase::kPending);
  EXPECT_EQ(world_.Report(id).why, "begins again in 5 s");
  EXPECT_TRUE(world_.RunToTheEnd(60));
  EXPECT_EQ(world_.Phase(id), JobPhase::kSucceeded);
  EXPECT_EQ(world_.Phase(never), JobPhase::kFailed);
  EXPECT_THAT(world_.Report(never).why, HasSubstr("the agent of this node is leaving; 3 attempts"));
}

TEST_F(ControllerTest, TakesAnotherNodeForOneThatIsLost) {
  world_.scripts["sft"].steps = 30;
  std::string id = Submit(Spec("sft", 2, 2));
  world_.Run(5);
  std::vector<std::string> before = Nodes(id);
  world_.CrashNode(before[1]);
  EXPECT_TRUE(world_.RunToTheEnd(120));
  EXPECT_EQ(world_.Phase(id), JobPhase::kSucceeded);
  EXPECT_THAT(Nodes(id), Not(Contains(before[1])));
  EXPECT_EQ(world_.Report(id).job.status.attempt, 2);
}

TEST_F(ControllerTest, WaitsForANodeThatComesBackSoon) {
  world_.scripts["sft"].steps = 20;
  std::string id = Submit(Spec("sft", 3, 2));
  world_.Run(5);
  world_.Unlink("n2");
  world_.Run(5);
  EXPECT_EQ(world_.controller().Nodes()[1].state, NodeState::kSilent);
  world_.Link("n2");
  EXPECT_TRUE(world_.RunToTheEnd(60));
  EXPECT_EQ(world_.Phase(id), JobPhase::kSucceeded);
  EXPECT_EQ(world_.Report(id).job.status.attempt, 1);
}

TEST_F(ControllerTest, GivesAFencedNodeNothingBeforeItIsClean) {
  world_.scripts["sft"] = {.steps = 40, .deaf = true};
  std::string id = Submit(Spec("sft", 3, 2));
  world_.Run(5);
  world_.Unlink("n2");  // its ranks go on
  world_.Run(15);
  EXPECT_EQ(world_.Phase(id), JobPhase::kPending);
  EXPECT_EQ(world_.controller().Nodes()[1].state, NodeState::kLost);
  EXPECT_THAT(world_.Report(id).why, HasSubstr("2 have them"));
  world_.Link("n2");
  EXPECT_TRUE(world_.RunToTheEnd(120));
  EXPECT_EQ(world_.Phase(id), JobPhase::kSucceeded);
}

TEST_F(ControllerTest, LosesANodeThatSaysNothing) {
  world_.scripts["sft"].steps = 60;
  std::string id = Submit(Spec("sft", 1, 2));
  world_.Run(5);
  std::string node = Nodes(id)[0];
  world_.Freeze(node, true);
  world_.Run(40);
  EXPECT_EQ(world_.Report(id).job.status.attempt, 2);
  EXPECT_THAT(Nodes(id), Not(Contains(node)));
  world_.Freeze(node, false);
  EXPECT_TRUE(world_.RunToTheEnd(120));
  EXPECT_EQ(world_.live_attempts(), 0);
  EXPECT_EQ(world_.Phase(id), JobPhase::kSucceeded);
}

// ---- cancel ----

TEST_F(ControllerTest, CancelsAtOnceWhatWaits) {
  std::string first = Submit(Spec("sft", 3, 2));
  std::string id = Submit(Spec("sft", 3, 2));
  EXPECT_THAT(world_.Report(id).why, HasSubstr("needs 3 nodes with 2 free CPU slots; 0 have them"));
  EXPECT_EQ(world_.Cancel(id)->job.status.phase, JobPhase::kCancelled);
  EXPECT_EQ(world_.Report(id).why, "it was cancelled");
  EXPECT_TRUE(world_.RunToTheEnd(60));
}

TEST_F(ControllerTest, CancelsWhatStartsOrRunsByLeaving) {
  for (int after : {0, 1, 4}) {
    std::string id = Submit(Spec("sft", 2));
    world_.Run(after);
    EXPECT_EQ(world_.Cancel(id)->job.status.phase, JobPhase::kStopping) << after;
    EXPECT_TRUE(world_.RunToTheEnd(60));
    EXPECT_EQ(world_.Phase(id), JobPhase::kCancelled) << after;
    EXPECT_EQ(world_.live_attempts(), 0);
  }
}

TEST_F(ControllerTest, KillsWhatDoesNotLeave) {
  world_.scripts["sft"] = {.steps = 100, .deaf = true};
  std::string id = Submit(Spec("sft", 2));
  world_.Run(5);
  EXPECT_TRUE(world_.Cancel(id).ok());
  world_.Run(8);
  EXPECT_EQ(world_.Phase(id), JobPhase::kStopping);
  world_.Run(4);
  EXPECT_EQ(world_.Phase(id), JobPhase::kCancelled);
}

TEST_F(ControllerTest, KillsAtOnceWithoutGrace) {
  world_.scripts["sft"] = {.steps = 100, .deaf = true};
  std::string id = Submit(Spec("sft", 2));
  world_.Run(5);
  EXPECT_TRUE(world_.Cancel(id, Duration::zero()).ok());
  EXPECT_EQ(world_.Phase(id), JobPhase::kCancelled);
}

TEST_F(ControllerTest, CancellingWhatHasEndedChangesNothing) {
  std::string id = Submit(Spec("sft"));
  EXPECT_TRUE(world_.RunToTheEnd(60));
  EXPECT_EQ(world_.Cancel(id)->job.status.phase, JobPhase::kSucceeded);
}

// ---- the queue ----

TEST_F(ControllerTest, PreemptsForAHigherPriorityAndGoesOnAfterwards) {
  world_.scripts["low"].steps = 20;
  std::string low = Submit(Spec("low", 3, 2));
  world_.Run(6);
  JobSpec spec = Spec("high", 3, 2);
  spec.priority = 5;
  std::string high = Submit(std::move(spec));
  EXPECT_EQ(world_.Phase(low), JobPhase::kStopping);
  world_.Run(3);
  EXPECT_EQ(world_.Phase(low), JobPhase::kPending);
  EXPECT_EQ(world_.Phase(high), JobPhase::kRunning);
  EXPECT_TRUE(world_.RunToTheEnd(120));
  EXPECT_EQ(world_.Phase(high), JobPhase::kSucceeded);
  JobReport report = world_.Report(low);
  EXPECT_EQ(report.job.status.phase, JobPhase::kSucceeded);
  EXPECT_EQ(report.job.status.attempt, 2);
  EXPECT_EQ(report.job.status.restarts, 0);
  EXPECT_EQ(report.goodput.lost_work, Duration::zero());
}

TEST_F(ControllerTest, APreemptedJobThatIsCancelledIsCancelled) {
  world_.scripts["low"] = {.steps = 50, .deaf = true};
  std::string low = Submit(Spec("low", 3, 2));
  world_.Run(6);
  JobSpec spec = Spec("high", 3, 2);
  spec.priority = 5;
  Submit(std::move(spec));
  EXPECT_TRUE(world_.Cancel(low).ok());
  EXPECT_TRUE(world_.RunToTheEnd(120));
  EXPECT_EQ(world_.Phase(low), JobPhase::kCancelled);
}

TEST_F(ControllerTest, StartsByPriorityThenByAge) {
  std::string first = Submit(Spec("a", 3, 2));
  world_.Run(1);
  std::string old = Submit(Spec("b", 3, 2));
  world_.Run(1);
  std::string young = Submit(Spec("c", 3, 2));
  JobSpec urgent = Spec("d", 3, 2);
  urgent.priority = 1;
  world_.scripts["a"].deaf = true;  // not preempted in time
  std::string high = Submit(std::move(urgent));
  EXPECT_TRUE(world_.RunToTheEnd(200));
  auto start = [&](const std::string& id) { return world_.Report(id).started_unix_ns; };
  EXPECT_LT(start(first), start(high));
  EXPECT_LT(start(high), start(old));
  EXPECT_LT(start(old), start(young));
}

TEST_F(ControllerTest, BeginsAfterWhatItNeeds) {
  std::string first = Submit(Spec("a"));
  JobSpec spec = Spec("b");
  spec.after = {first};
  std::string second = Submit(std::move(spec));
  EXPECT_EQ(world_.Report(second).why, "begins after " + first);
  EXPECT_TRUE(world_.RunToTheEnd(60));
  EXPECT_GE(world_.Report(second).started_unix_ns, world_.Report(first).ended_unix_ns);
  JobSpec third = Spec("c");
  third.after = {first, second};
  Submit(std::move(third));
  EXPECT_TRUE(world_.RunToTheEnd(60));
}

TEST_F(ControllerTest, FailsWithWhatItNeeds) {
  world_.scripts["a"].user_error_at = 1;
  std::string first = Submit(Spec("a"));
  JobSpec b = Spec("b"), c = Spec("c"), d = Spec("d");
  b.after = {first};
  std::string second = Submit(std::move(b));
  c.after = {second};
  std::string third = Submit(std::move(c));
  EXPECT_TRUE(world_.RunToTheEnd(60));
  EXPECT_EQ(world_.Phase(third), JobPhase::kFailed);
  EXPECT_EQ(world_.Report(second).why, first + ", which it was to begin after, did not succeed");
  d.after = {first};
  EXPECT_EQ(world_.Submit(std::move(d)).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(ControllerTest, EndsWhenItsTimeIsOver) {
  world_.scripts["sft"].steps = 100;
  JobSpec spec = Spec("sft");
  spec.time_limit = seconds(12);
  std::string id = Submit(std::move(spec));
  EXPECT_TRUE(world_.RunToTheEnd(60));
  JobReport report = world_.Report(id);
  EXPECT_EQ(report.job.status.phase, JobPhase::kFailed);
  EXPECT_EQ(report.why, "its time limit of 12 s was over");
  EXPECT_TRUE(report.job.status.saved);
}

TEST_F(ControllerTest, GivesADrainedNodeNothing) {
  EXPECT_TRUE(world_.Drain("n1")->drained);
  std::string id = Submit(Spec("sft", 2, 2));
  EXPECT_THAT(Nodes(id), ElementsAre("n2", "n3"));
  std::string waits = Submit(Spec("sft", 3, 2));
  world_.KillController();
  world_.StartController();
  for (const char* node : {"n1", "n2", "n3"}) world_.Link(node);
  EXPECT_FALSE(world_.RunToTheEnd(60));
  EXPECT_EQ(world_.controller().Nodes()[0].reason, "a new fan");
  EXPECT_EQ(world_.Phase(waits), JobPhase::kPending);
  EXPECT_TRUE(world_.Drain("n1", false).ok());
  EXPECT_TRUE(world_.RunToTheEnd(60));
  EXPECT_EQ(world_.Drain("n9").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(ControllerTest, PutsANodeInQuarantineWhereJobsKeepFailing) {
  for (const char* name : {"a", "b"}) {
    world_.scripts[name].dies_at = {{1, 1}, {2, 1}, {3, 1}, {4, 1}};
    EXPECT_TRUE(world_.Drain("n2").ok());
    EXPECT_TRUE(world_.Drain("n3").ok());
    Submit(Spec(name, 1, 2));
    EXPECT_TRUE(world_.RunToTheEnd(120));
  }
  EXPECT_THAT(world_.controller().Nodes()[0].quarantined, HasSubstr("failed on it"));
  EXPECT_TRUE(world_.Drain("n1", false).ok());
  EXPECT_EQ(world_.controller().Nodes()[0].quarantined, "");
}

// ---- submit ----

TEST_F(ControllerTest, KnowsATokenAgain) {
  std::string id = Submit(Spec("sft"), "t1");
  EXPECT_EQ(Submit(Spec("sft"), "t1"), id);
  EXPECT_NE(Submit(Spec("sft"), "t2"), id);
  EXPECT_TRUE(world_.RunToTheEnd(60));
  EXPECT_EQ(Submit(Spec("sft"), "t1"), id);
  EXPECT_EQ(world_.controller().Jobs(true).size(), 2u);
}

TEST_F(ControllerTest, RefusesWhatCanNeverFitOnceTheNodesAreKnown) {
  std::string waits = Submit(Spec("sft", 4));
  EXPECT_THAT(world_.Report(waits).why, HasSubstr("needs 4 nodes"));
  EXPECT_TRUE(world_.Cancel(waits).ok());
  world_.Run(11);
  absl::Status status = world_.Submit(Spec("sft", 4)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("but the cluster has 3 such nodes"));
}

TEST_F(ControllerTest, FindsAJobByItsBeginning) {
  std::string one = Submit(Spec("sft"));
  EXPECT_EQ(world_.controller().Find("am-")->job.spec.id, one);
  Submit(Spec("sft"));
  EXPECT_EQ(world_.controller().Find("am-").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(world_.controller().Find("am-7").status().message()),
              HasSubstr("no job am-7; the nearest is am-1"));
  EXPECT_TRUE(world_.RunToTheEnd(60));
}

TEST_F(ControllerTest, TellsWatchersInOrderWhatIsStored) {
  std::vector<StoredEvent> told;
  world_.controller().Watch([&](const StoredEvent& event) { told.push_back(event); });
  int64_t before = static_cast<int64_t>(world_.store.Events("", 0, 1000)->size());
  Submit(Spec("sft"));
  EXPECT_TRUE(world_.RunToTheEnd(60));
  std::vector<StoredEvent> stored = *world_.store.Events("", before, 1000);
  ASSERT_EQ(told.size(), stored.size());
  for (size_t i = 0; i < told.size(); ++i) {
    EXPECT_EQ(told[i].seq, stored[i].seq);
    EXPECT_EQ(told[i].text, stored[i].text);
  }
}

// ---- the disk ----

TEST_F(ControllerTest, RefusesWhileTheDiskIsFullAndGoesOnAfterwards) {
  std::string id = Submit(Spec("sft", 2));
  world_.Run(3);
  world_.store.full = true;
  size_t sent = world_.sent.size();
  EXPECT_EQ(world_.Submit(Spec("sft"), "t").status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(world_.Submit(Spec("sft"), "t").status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(world_.Cancel(id).status().code(), absl::StatusCode::kResourceExhausted);
  world_.Run(10);
  EXPECT_EQ(world_.sent.size(), sent);
  world_.store.full = false;
  EXPECT_TRUE(world_.RunToTheEnd(60));
  EXPECT_EQ(world_.Phase(id), JobPhase::kSucceeded);
  EXPECT_EQ(world_.controller().Jobs(true).size(), 1u);
  Submit(Spec("sft"), "t");
  EXPECT_TRUE(world_.RunToTheEnd(60));
}

TEST_F(ControllerTest, StartsOnceOnANodeThatDialsAgainWhileTheDiskIsFull) {
  for (const char* node : {"n1", "n2", "n3"}) world_.Unlink(node);
  std::string id = Submit(Spec("sft"));
  world_.store.full = true;
  world_.Link("n1");
  world_.Settle();
  EXPECT_EQ(world_.Phase(id), JobPhase::kStarting);
  world_.Unlink("n1");
  world_.Link("n1");
  world_.Settle();
  EXPECT_THAT(world_.sent, IsEmpty());
  world_.store.full = false;
  EXPECT_TRUE(world_.RunToTheEnd(60));
  EXPECT_EQ(world_.Report(id).job.status.attempt, 1);
  EXPECT_EQ(world_.Phase(id), JobPhase::kSucceeded);
}

TEST_F(ControllerTest, ActsOnlyWhenTheIntentIsStored) {
  world_.store.crash_at = world_.store.commits + 1;
  EXPECT_FALSE(world_.Submit(Spec("sft"), "t").ok());
  EXPECT_THAT(world_.sent, IsEmpty());
  world_.StartController();
  for (const char* node : {"n1", "n2", "n3"}) world_.Link(node);
  EXPECT_THAT(world_.controller().Jobs(true), IsEmpty());
  Submit(Spec("sft"), "t");
  EXPECT_TRUE(world_.RunToTheEnd(60));
}

}  // namespace
}  // namespace am::controller

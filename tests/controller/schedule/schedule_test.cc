#include "controller/schedule/schedule.h"

#include <gmock/gmock.h>

#include <random>
#include <set>

#include "absl/strings/str_cat.h"

namespace am::controller {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr TimePoint kNow{hours(100)};

QueueView Cluster(int nodes, int gpus = 8, int nodes_per_domain = 1) {
  QueueView view{.now = kNow};
  for (int i = 0; i < nodes; ++i) {
    view.nodes.push_back({.name = absl::StrCat("n", i),
                          .domain = absl::StrCat("d", i / nodes_per_domain),
                          .gpus = gpus,
                          .cpu_slots = 4});
  }
  return view;
}

WaitingJob Waiting(std::string id, int nodes, int gpus = 8, int priority = 0) {
  return {.id = id,
          .user = "ann",
          .priority = priority,
          .submitted = kNow - hours(1),
          .demand = {.nodes = nodes, .ranks_per_node = gpus, .gpus = true}};
}

RunningJob Running(std::string id, std::vector<int> nodes, int priority = 0) {
  RunningJob job{
      .id = id,
      .user = "bob",
      .priority = priority,
      .started = kNow - hours(2),
      .demand = {.nodes = static_cast<int>(nodes.size()), .ranks_per_node = 8, .gpus = true}};
  for (int node : nodes) {
    job.placement.push_back({absl::StrCat("n", node), {0, 1, 2, 3, 4, 5, 6, 7}});
  }
  return job;
}

std::vector<std::string> Nodes(const Placement& placement) {
  std::vector<std::string> names;
  for (const NodeShare& share : placement) names.push_back(share.node);
  return names;
}

std::vector<std::string> PlacedIds(const Verdict& verdict) {
  std::vector<std::string> ids;
  for (const Placed& placed : verdict.placed) ids.push_back(placed.id);
  return ids;
}

TEST(Schedule, PlacesAGangWholeOrNotAtAll) {
  QueueView view = Cluster(4);
  view.running = {Running("r", {0, 1})};
  view.waiting = {Waiting("big", 3)};
  Verdict verdict = Schedule(view);
  EXPECT_THAT(verdict.placed, IsEmpty());
  EXPECT_EQ(verdict.why_waiting["big"], "needs 3 nodes with 8 free GPUs; 2 have them");
}

TEST(Schedule, OrdersByPriorityThenFairShareThenAge) {
  QueueView view = Cluster(1);
  view.waiting = {Waiting("old", 1), Waiting("urgent", 1, 8, 5)};
  EXPECT_THAT(PlacedIds(Schedule(view)), ElementsAre("urgent"));
  view = Cluster(2);
  view.running = {Running("r", {0})};  // bob's
  view.waiting = {Waiting("of-bob", 1), Waiting("of-ann", 1)};
  view.waiting[0].user = "bob";
  view.waiting[0].submitted -= hours(10);
  EXPECT_THAT(PlacedIds(Schedule(view)), ElementsAre("of-ann"));
  view.running.clear();
  EXPECT_EQ(PlacedIds(Schedule(view)).front(), "of-bob");
}

TEST(Schedule, PacksSmallJobsOnTheNodeThatTheyFitBest) {
  QueueView view = Cluster(2);
  RunningJob half = Running("r", {1});
  half.demand.ranks_per_node = 4;
  half.placement[0].slots = {0, 2, 4, 6};
  view.running = {half};
  view.waiting = {Waiting("small", 1, 3)};
  EXPECT_EQ(Schedule(view).placed.at(0).placement, (Placement{{"n1", {1, 3, 5}}}));
}

TEST(Schedule, KeepsAJobInOneNvlinkDomainWhereItFits) {
  QueueView view = Cluster(36, 4, 18);
  view.nodes[5].usable = false;  // d0 has 17 left
  view.waiting = {Waiting("rack", 18, 4)};
  EXPECT_EQ(Nodes(Schedule(view).placed.at(0).placement).front(), "n18");
}

TEST(Schedule, NeverCutsASegmentAcrossDomains) {
  QueueView view = Cluster(36, 4, 18);
  view.waiting = {Waiting("job", 24, 4)};
  view.waiting[0].demand.segment_nodes = 8;
  Verdict verdict = Schedule(view);
  ASSERT_EQ(verdict.placed.size(), 1u);
  std::map<std::string, int> of_domain;
  for (const std::string& node : Nodes(verdict.placed[0].placement)) {
    ++of_domain[std::stoi(node.substr(1)) < 18 ? "d0" : "d1"];
  }
  EXPECT_EQ(of_domain["d0"] % 8, 0);
  EXPECT_EQ(of_domain["d1"] % 8, 0);
}

TEST(Schedule, TakesANodeWithoutADomainForOneOfItsOwn) {
  QueueView view = Cluster(4, 4, 4);
  view.nodes[3].domain.clear();
  view.waiting = {Waiting("job", 4, 4)};
  view.waiting[0].demand.segment_nodes = 4;
  EXPECT_THAT(Schedule(view).placed, IsEmpty());
  EXPECT_THAT(WhyImpossible(view.waiting[0].demand, view.nodes),
              HasSubstr("in segments of 4 nodes of one NVLink domain"));
}

TEST(Schedule, BackfillsBehindAHeadOnlyWhatDoesNotDelayIt) {
  QueueView view = Cluster(4);
  view.running = {Running("r", {0, 1}, 1)};
  view.running[0].ends_by = kNow + hours(1);
  view.waiting = {Waiting("head", 4, 8, 1), Waiting("short", 2), Waiting("long", 2)};
  view.waiting[1].time_limit = minutes(50);
  view.waiting[2].time_limit = minutes(70);
  view.waiting[2].submitted -= hours(9);
  Verdict verdict = Schedule(view);
  EXPECT_THAT(PlacedIds(verdict), ElementsAre("short"));
  EXPECT_EQ(verdict.why_waiting["long"], "would fit, but head is to start there first");
}

TEST(Schedule, LeavesToOthersWhatAHeadWillNotUse) {
  QueueView view = Cluster(4);
  view.running = {Running("r", {0, 1})};
  view.waiting = {Waiting("head", 3, 8, 1), Waiting("other", 1), Waiting("third", 1)};
  view.waiting[2].submitted += minutes(1);
  Verdict verdict = Schedule(view);
  EXPECT_THAT(PlacedIds(verdict), ElementsAre("other"));
  EXPECT_EQ(verdict.why_waiting["third"], "would fit, but head is to start there first");
}

TEST(Schedule, PreemptsTheLowestAndYoungestAndNoMoreThanItNeeds) {
  QueueView view = Cluster(4);
  view.running = {Running("low-old", {0}), Running("low-young", {1}), Running("mid", {2}, 3),
                  Running("high", {3}, 9)};
  view.running[1].started += hours(1);
  view.waiting = {Waiting("urgent", 1, 8, 5)};
  Verdict verdict = Schedule(view);
  ASSERT_EQ(verdict.preempted.size(), 1u);
  EXPECT_EQ(verdict.preempted[0].id, "low-young");
  EXPECT_EQ(verdict.preempted[0].for_id, "urgent");
  EXPECT_THAT(verdict.why_waiting["urgent"], HasSubstr("low-young makes room for it"));
  view.waiting[0].demand.nodes = 4;  // `high` stays, so it would not hold
  EXPECT_THAT(Schedule(view).preempted, IsEmpty());
}

TEST(Schedule, AsksNobodyTwiceToMakeRoom) {
  QueueView view = Cluster(2);
  view.running = {Running("a", {0}), Running("b", {1})};
  view.running[0].stopping = true;
  view.waiting = {Waiting("urgent", 1, 8, 5)};
  Verdict verdict = Schedule(view);
  EXPECT_THAT(verdict.preempted, IsEmpty());
  EXPECT_THAT(verdict.why_waiting["urgent"], HasSubstr("being freed for it"));
}

TEST(Schedule, SaysWhyNotInWords) {
  QueueView view = Cluster(1);
  view.waiting = {Waiting("after", 1), Waiting("later", 1), Waiting("over", 1)};
  view.waiting[0].waits_for = {"am-1", "am-2"};
  view.waiting[1].not_before = kNow + std::chrono::seconds(30);
  view.quotas[""] = {.max_slots = 4};
  Verdict verdict = Schedule(view);
  EXPECT_EQ(verdict.why_waiting["after"], "begins after am-1, am-2");
  EXPECT_EQ(verdict.why_waiting["later"], "begins again in 30 s");
  EXPECT_EQ(verdict.why_waiting["over"], "ann has 0 of 4 slots and this takes 8");
}

TEST(Schedule, RefusesTheImpossibleWithWhatIsMissing) {
  QueueView view = Cluster(2);
  view.nodes[1].usable = false;  // away for now: counts
  EXPECT_EQ(WhyImpossible(Waiting("j", 2).demand, view.nodes), "");
  EXPECT_EQ(WhyImpossible(Waiting("j", 3).demand, view.nodes),
            "needs 3 nodes with 8 GPUs, but the cluster has 2 such nodes");
  EXPECT_EQ(WhyImpossible(Waiting("j", 1, 16).demand, view.nodes),
            "needs 1 node with 16 GPUs, but no node has more than 8");
}

// Random queues, run to their end: no slot has two owners, nobody starves, the queue drains.
TEST(Schedule, DrainsAnyQueueWithoutGivingASlotToTwo) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
    QueueView view = Cluster(2 + below(6), 4, 1 + below(3));
    for (int i = 0; i < 20; ++i) {
      WaitingJob job = Waiting(absl::StrCat("j", i), 1 + below(static_cast<int>(view.nodes.size())),
                               1 + below(4), below(3));
      job.user = absl::StrCat("u", below(3));
      job.submitted = kNow - minutes(below(600));
      if (below(2) == 0) job.time_limit = minutes(1 + below(100));
      view.waiting.push_back(job);
    }
    int turns = 0;
    while (!view.waiting.empty() || !view.running.empty()) {
      ASSERT_LT(++turns, 1000) << "seed " << seed;
      Verdict verdict = Schedule(view);
      for (const Placed& placed : verdict.placed) {
        auto job = std::ranges::find(view.waiting, placed.id, &WaitingJob::id);
        ASSERT_NE(job, view.waiting.end());
        ASSERT_EQ(static_cast<int>(placed.placement.size()), job->demand.nodes);
        view.running.push_back({.id = job->id,
                                .user = job->user,
                                .priority = job->priority,
                                .started = view.now,
                                .demand = job->demand,
                                .placement = placed.placement});
        if (job->time_limit) view.running.back().ends_by = view.now + *job->time_limit;
        view.waiting.erase(job);
      }
      std::set<std::pair<std::string, int>> owned;
      for (const RunningJob& job : view.running) {
        for (const NodeShare& share : job.placement) {
          for (int slot : share.slots) {
            ASSERT_TRUE(owned.emplace(share.node, slot).second) << "seed " << seed;
          }
        }
      }
      for (const Preempted& preempted : verdict.preempted) {
        auto job = std::ranges::find(view.running, preempted.id, &RunningJob::id);
        ASSERT_NE(job, view.running.end());
        job->stopping = true;
      }
      for (const WaitingJob& job : view.waiting) {
        ASSERT_FALSE(verdict.why_waiting[job.id].empty()) << job.id << ", seed " << seed;
      }
      // Time passes: what is stopping leaves and waits again, one of the others ends.
      for (RunningJob& job : view.running) {
        if (!job.stopping) continue;
        view.waiting.push_back({.id = job.id,
                                .user = job.user,
                                .priority = job.priority,
                                .submitted = kNow,
                                .demand = job.demand});
      }
      std::erase_if(view.running, [](const RunningJob& job) { return job.stopping; });
      if (verdict.placed.empty() && verdict.preempted.empty() && !view.running.empty()) {
        view.running.erase(view.running.begin() + below(static_cast<int>(view.running.size())));
      }
      view.now += minutes(1);
    }
  }
}

}  // namespace
}  // namespace am::controller

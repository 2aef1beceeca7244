// The controller is killed at any moment, again and again: nothing is lost, nothing starts twice.
#include <gmock/gmock.h>

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/daemon/controller.h"
#include "tests/controller/daemon/world.h"

namespace am::controller {
namespace {

using std::chrono::seconds;
using testing::IsEmpty;

const std::vector<std::string> kNodes = {"n1", "n2", "n3", "n4", "n5"};

std::map<std::string, int> Slots() {
  std::map<std::string, int> slots;
  for (const std::string& node : kNodes) slots[node] = 4;
  return slots;
}

JobSpec Spec(const std::string& name, int nodes, int ranks, int priority = 0) {
  return {.restart = {.grace = seconds(8)},
          .name = name,
          .user = "ada",
          .priority = priority,
          .demand = {.nodes = nodes, .ranks_per_node = ranks}};
}

// Somebody who asks again until there is an answer.
class User {
 public:
  explicit User(World& world) : world_(world) {}
  void Submit(JobSpec spec, const std::string& after = "") {
    wishes_.push_back({std::move(spec), after});
  }
  void Cancel(const std::string& name, int at) { cancels_.push_back({name, at}); }

  bool satisfied() const { return wishes_.empty() && cancels_.empty(); }
  std::map<std::string, std::string> ids;  // by name

  void Ask(int now) {
    while (!wishes_.empty() && world_.up()) {
      auto [spec, after] = wishes_.front();
      std::string name = spec.name;
      if (!after.empty()) spec.after = {ids.at(after)};
      absl::StatusOr<std::string> id = world_.Submit(std::move(spec), "token of " + name);
      if (id.status().code() == absl::StatusCode::kUnknown) return;
      if (id.ok()) ids[name] = *id;
      // Refused: what it was to begin after has failed already.
      if (!id.ok()) refused.push_back(name);
      wishes_.erase(wishes_.begin());
    }
    std::erase_if(cancels_, [&](const auto& cancel) {
      if (cancel.second > now || !world_.up()) return false;
      return !ids.contains(cancel.first) || world_.Cancel(ids.at(cancel.first)).ok();
    });
  }
  std::vector<std::string> refused;

 private:
  World& world_;
  std::vector<std::pair<JobSpec, std::string>> wishes_;
  std::vector<std::pair<std::string, int>> cancels_;
};

void ExpectGoodEnd(World& world, const User& user) {
  world.Run(3);
  world.CheckEvents();
  EXPECT_THAT(world.violations, IsEmpty());
  EXPECT_EQ(world.live_attempts(), 0);
  EXPECT_EQ(world.controller().Jobs(true).size(), user.ids.size());
}

// One long story; the ends of its jobs, by name.
std::map<std::string, std::string> Story(int64_t crash_at, bool crash_after, int64_t* commits) {
  World world(Slots());
  world.scripts["restarts"].dies_at = {{1, 3}};
  world.scripts["gives up"].dies_at = {{1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}};
  world.scripts["wrong"].user_error_at = 1;
  world.scripts["long"] = {.steps = 25};
  world.scripts["cancelled"] = {.steps = 500};
  world.scripts["deaf"] = {.steps = 500, .deaf = true};
  User user(world);
  user.Submit(Spec("long", 5, 3));
  user.Submit(Spec("restarts", 2, 1));
  user.Submit(Spec("wrong", 1, 1));
  user.Submit(Spec("high", 5, 2, 9));
  user.Submit(Spec("next", 1, 1), "restarts");
  user.Submit(Spec("gives up", 1, 1));
  user.Submit(Spec("cancelled", 2, 1));
  user.Submit(Spec("deaf", 1, 1));
  user.Cancel("cancelled", 20);
  user.Cancel("deaf", 25);
  world.store.crash_at = crash_at;
  world.store.crash_after = crash_after;
  int down = 0;
  for (int t = 0; t < 400; ++t) {
    user.Ask(t);
    if (!world.up() && ++down > 2) world.StartController();
    // Each agent notices in its own time.
    if (world.up()) world.Link(kNodes[static_cast<size_t>(t) % kNodes.size()]);
    world.Tick();
    if (world.up() && user.satisfied() && world.controller().Jobs(false).empty()) break;
  }
  std::map<std::string, std::string> ends;
  EXPECT_TRUE(world.up() && user.satisfied());
  if (!world.up()) return ends;
  for (const auto& [name, id] : user.ids) {
    ends[name] = absl::StrCat(Name(world.Phase(id)), " in attempt ",
                              name == "long" ? 0 : world.Report(id).job.status.attempt);
  }
  ExpectGoodEnd(world, user);
  if (commits != nullptr) *commits = world.store.commits;
  return ends;
}

// Sanitizers make these a hundred times slower: a sample is run under them, all of it without.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int kStride = 23, kSeeds = 8;
#else
constexpr int kStride = 1, kSeeds = 200;
#endif

TEST(ControllerRestart, EndsTheSameWhereverItIsKilled) {
  int64_t commits = 0;
  std::map<std::string, std::string> undisturbed = Story(0, false, &commits);
  EXPECT_EQ(undisturbed.at("long"), "Succeeded in attempt 0");
  EXPECT_EQ(undisturbed.at("restarts"), "Succeeded in attempt 2");
  EXPECT_EQ(undisturbed.at("gives up"), "Failed in attempt 3");
  EXPECT_EQ(undisturbed.at("cancelled"), "Cancelled in attempt 1");
  EXPECT_EQ(undisturbed.at("deaf"), "Cancelled in attempt 1");
  ASSERT_GT(commits, 20);
  for (int64_t at = 1; at <= commits; at += kStride) {
    for (bool after : {false, true}) {
      SCOPED_TRACE(absl::StrCat("killed ", after ? "after" : "before", " transaction ", at));
      EXPECT_EQ(Story(at, after, nullptr), undisturbed);
      if (testing::Test::HasFailure()) return;
    }
  }
}

// Anything may happen, for five minutes; then the world is calm, and every job ends.
class ControllerChaos : public testing::TestWithParam<int> {};

TEST_P(ControllerChaos, LosesNothingAndStartsNothingTwice) {
  std::mt19937 random(static_cast<unsigned>(GetParam()));
  auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  World world(Slots());
  User user(world);
  for (int i = 0; i < 20; ++i) {
    std::string name = absl::StrCat("job ", i);
    Script& script = world.scripts[name];
    script.steps = 3 + below(30);
    script.checkpoint_every = 2 + below(8);
    script.deaf = below(8) == 0;
    if (below(10) == 0) script.not_started = 1 + below(3);
    for (int attempt = 1; attempt < 8; ++attempt) {
      if (below(4) == 0) script.dies_at[attempt] = 1 + below(20);
    }
    if (below(15) == 0) script.user_error_at = 1 + below(2);
    JobSpec spec = Spec(name, 1 + below(3), 1 + below(4), below(3));
    spec.user = below(2) == 0 ? "ada" : "bob";
    if (below(6) == 0) spec.time_limit = seconds(10 + below(60));
    user.Submit(std::move(spec), i > 0 && below(6) == 0 ? "job 0" : "");
    if (below(6) == 0) user.Cancel(name, below(150));
  }
  int down = 0;
  for (int t = 0; t < 4000; ++t) {
    bool calm = t > 300;
    user.Ask(t);
    if (calm) {
      world.store.crash_at = 0;
      world.store.full = false;
      for (const std::string& node : kNodes) {
        world.Freeze(node, false);
        if (!world.alive(node)) world.BootNode(node);
      }
    } else {
      const std::string& node = kNodes[static_cast<size_t>(below(5))];
      switch (below(40)) {
        case 0:
          world.store.crash_at = world.store.commits + 1 + below(5);
          world.store.crash_after = below(2) == 0;
          break;
        case 1:
          world.KillController();
          break;
        case 2:
          world.CrashNode(node);
          break;
        case 3:
          world.Unlink(node);
          break;
        case 4:
          world.Freeze(node, world.alive(node));
          break;
        case 5:
          world.store.full = true;
          break;
        case 6:
          if (world.up()) (void)world.Drain(node, below(2) == 0);
          break;
        default:
          break;
      }
      if (below(4) == 0) world.Freeze(node, false);
      if (below(4) == 0) world.store.full = false;
      if (below(6) == 0 && !world.alive(node)) world.BootNode(node);
    }
    if (!world.up() && ++down % 3 == 0) world.StartController();
    if (calm) {
      for (const std::string& node : kNodes) {
        world.Link(node);
        if (t == 310) (void)world.Drain(node, false);
      }
    } else if (below(2) == 0) {
      world.Link(kNodes[static_cast<size_t>(below(5))]);
    }
    world.Tick();
    if (t > 320 && user.satisfied() && world.up() && world.controller().Jobs(false).empty()) break;
  }
  ASSERT_TRUE(world.up() && user.satisfied());
  for (const JobReport& report : world.controller().Jobs(false)) {
    ADD_FAILURE() << report.job.spec.id << " (" << report.job.spec.name
                  << ") has not ended: " << Name(report.job.status.phase) << ", " << report.why;
  }
  ExpectGoodEnd(world, user);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ControllerChaos, testing::Range(1, kSeeds + 1));

}  // namespace
}  // namespace am::controller

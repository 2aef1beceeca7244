#include "controller/backend/job_driver.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/fakes/fake_clock.h"

namespace am::controller {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;

class FakeBackend final : public Backend {
 public:
  void Start(const JobSpec&, const Placement&, const StartRanks& action) override {
    sent.push_back(absl::StrCat("start ", action.attempt));
  }
  void Rendezvous(const JobSpec&, const Placement&, const SendRendezvous& action) override {
    sent.push_back(absl::StrCat("rendezvous ", action.attempt));
  }
  void Leave(const JobSpec&, const Placement&, const LeaveRanks& action) override {
    sent.push_back(absl::StrCat("leave ", action.attempt));
  }
  void Kill(const JobSpec&, const Placement&, const KillRanks& action) override {
    sent.push_back(absl::StrCat("kill ", action.attempt));
  }
  void Forget(const std::string&, int64_t attempt, const Placement&) override {
    sent.push_back(absl::StrCat("forget ", attempt));
  }
  std::vector<std::string> sent;
};

class JobDriverTest : public testing::Test {
 protected:
  std::optional<TimePoint> See(const Observation& observation) {
    return driver_.Observe(observation) ? driver_.Turn() : std::nullopt;
  }

  void Place() {
    driver_.Place({{.node = "", .slots = {0}}});
    driver_.Turn();
  }

  FakeClock clock_;
  FakeBackend backend_;
  std::vector<std::string> said_;
  JobDriver driver_{{.id = "am-test", .rank_spec_json = "{}", .world_size = 1},
                    backend_,
                    clock_,
                    [this](const Announce& news) { said_.push_back(news.text); }};
};

TEST_F(JobDriverTest, SeesAJobThroughALostRankToItsEnd) {
  Place();
  See(StoreListening{1, "127.0.0.1:1"});
  See(RankReady{1, 0});
  See(RankExited{.attempt = 1, .rank = 0, .exit = {.signal = 9}});
  See(AttemptEmpty{1});
  See(StoreListening{2, "127.0.0.1:2"});
  See(RankReady{2, 0});
  See(RankExited{.attempt = 2, .rank = 0});
  EXPECT_FALSE(driver_.finished());
  See(AttemptEmpty{2});
  EXPECT_TRUE(driver_.finished());
  EXPECT_EQ(driver_.job().status.phase, JobPhase::kSucceeded);
  EXPECT_EQ(driver_.job().status.restarts, 1);
  EXPECT_THAT(backend_.sent,
              ElementsAre("start 1", "rendezvous 1", "kill 1", "start 2", "rendezvous 2"));
}

TEST_F(JobDriverTest, DropsLateReportsOfAnEarlierAttempt) {
  Place();
  See(RankExited{.attempt = 1, .rank = 0, .exit = {.code = 70}});
  See(AttemptEmpty{1});
  EXPECT_FALSE(driver_.Observe(RankExited{.attempt = 1, .rank = 0, .exit = {.code = 2}}));
  EXPECT_FALSE(driver_.Observe(AttemptEmpty{1}));
  EXPECT_EQ(driver_.job().status.phase, JobPhase::kStarting);
}

TEST_F(JobDriverTest, ASecondRequestMayOnlyShortenTheFirst) {
  Place();
  driver_.RequestStop({.leave_by = clock_.Now() + seconds(5), .because = "SIGTERM"});
  EXPECT_EQ(driver_.Turn(), clock_.Now() + seconds(5));
  driver_.RequestStop({.leave_by = clock_.Now() + seconds(60), .because = "SIGUSR1"});
  EXPECT_EQ(driver_.Turn(), clock_.Now() + seconds(5));
  clock_.Advance(seconds(5));
  driver_.Turn();
  EXPECT_THAT(backend_.sent, ElementsAre("start 1", "leave 1", "kill 1"));
}

TEST_F(JobDriverTest, IsFinishedOnlyWhenNothingIsLeft) {
  Place();
  driver_.RequestStop({.leave_by = clock_.Now() + seconds(60), .because = "SIGTERM"});
  driver_.Turn();
  See(RankExited{.attempt = 1, .rank = 0, .exit = {.code = 75}});
  EXPECT_FALSE(driver_.finished());
  See(AttemptEmpty{1});
  EXPECT_TRUE(driver_.finished());
  EXPECT_TRUE(driver_.job().status.saved);
}

}  // namespace
}  // namespace am::controller

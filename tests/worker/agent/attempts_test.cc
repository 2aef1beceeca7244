// Several attempts on one agent, and a controller that comes and goes: real processes, a link that
// keeps what is sent.
#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/file.h"
#include "tests/support/temporary_folder.h"
#include "tests/worker/agent/fake_link.h"
#include "worker/agent/worker_agent.h"

namespace am::agent {
namespace {

namespace v1 = amctl::v1;

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

// "am-a/1 ready 0", "am-a/1 exited 1 by signal 9 because …", "am-a/1 empty"
std::string Brief(const v1::AgentMessage& message) {
  auto head = [](const auto& body) { return absl::StrCat(body.job(), "/", body.attempt(), " "); };
  switch (message.body_case()) {
    case v1::AgentMessage::kHello: {
      std::string text = "hello";
      for (const v1::AttemptRef& known : message.hello().attempts()) {
        absl::StrAppend(&text, " ", known.job(), "/", known.attempt());
      }
      return text;
    }
    case v1::AgentMessage::kStartFailed:
      return absl::StrCat(head(message.start_failed()),
                          "start failed: ", message.start_failed().message());
    case v1::AgentMessage::kStoreListening:
      return head(message.store_listening()) + "listening";
    case v1::AgentMessage::kRankStarted:
      return absl::StrCat(head(message.rank_started()), "started ", message.rank_started().rank());
    case v1::AgentMessage::kRankEvent: {
      const v1::RankEvent& event = message.rank_event();
      return absl::StrCat(head(event), v1::RankEvent::Type_Name(event.type()), " ", event.rank(),
                          " step ", event.step());
    }
    case v1::AgentMessage::kRankExited: {
      const v1::RankExited& exited = message.rank_exited();
      std::string how = exited.signal() != 0 ? absl::StrCat("signal ", exited.signal())
                                             : absl::StrCat("status ", exited.exit_code());
      if (!exited.killed_because().empty()) how += " because " + exited.killed_because();
      return absl::StrCat(head(exited), "exited ", exited.rank(), " ", how);
    }
    case v1::AgentMessage::kAttemptEmpty:
      return head(message.attempt_empty()) + "empty";
    case v1::AgentMessage::kHeartbeat:
      return "heartbeat";
    case v1::AgentMessage::BODY_NOT_SET:
      break;
  }
  return "nothing";
}

class AttemptsTest : public testing::Test {
 protected:
  AttemptsTest() {
    signal(SIGPIPE, SIG_IGN);  // as the programs do: a rank may be gone when it is told
    const char* source = getenv("AMCTL_SOURCE_DIR");
    options_ = {
        .state_dir = folder_,
        .rank_program = absl::StrCat(source == nullptr ? "." : source, "/tests/fakes/rank.sh"),
        .environment = {"PATH=/usr/bin:/bin"},
        .cores = 8};
  }
  ~AttemptsTest() override {
    if (!agent_) return;
    agent_->Shutdown("the test is over", {}, [this] { loop_.Stop(); });
    loop_.Run();
    agent_.reset();
    EXPECT_THAT(spawner_.Strays({}), IsEmpty());
  }

  WorkerAgent& Agent() {
    if (!agent_) {
      agent_.emplace(loop_, spawner_, options_);
      agent_->Connected(link_);
    }
    return *agent_;
  }

  // Ranks are given to slots from `first_slot` on.
  void Start(const std::string& job, int64_t attempt, const std::string& script, int ranks = 1,
             int first_slot = 0, bool gpus = false) {
    v1::ControllerMessage message;
    v1::StartRanks* start = message.mutable_start_ranks();
    start->set_job(job);
    start->set_attempt(attempt);
    start->set_world_size(ranks);
    start->set_rank_spec_json(spec_);
    start->set_gpus(gpus);
    (*start->mutable_environment())["FAKE_RANK"] = script;
    for (int rank = 0; rank < ranks; ++rank) {
      v1::RankPlace* place = start->add_ranks();
      place->set_rank(rank);
      place->set_local_rank(rank);
      place->set_slot(first_slot + rank);
    }
    Agent().Handle(message);
  }
  void Leave(const std::string& job, int64_t attempt) {
    v1::ControllerMessage message;
    message.mutable_leave_ranks()->set_job(job);
    message.mutable_leave_ranks()->set_attempt(attempt);
    Agent().Handle(message);
  }
  void Kill(const std::string& job, int64_t attempt) {
    v1::ControllerMessage message;
    message.mutable_kill_ranks()->set_job(job);
    message.mutable_kill_ranks()->set_attempt(attempt);
    message.mutable_kill_ranks()->set_because("it was cancelled");
    Agent().Handle(message);
  }
  void Forget(const std::string& job, int64_t attempt) {
    v1::ControllerMessage message;
    message.mutable_forget_attempt()->set_job(job);
    message.mutable_forget_attempt()->set_attempt(attempt);
    Agent().Handle(message);
  }

  // Turns the loop until the agent has said this as often.
  void Await(const std::string& said, int times = 1) {
    auto heard = [&] { return std::ranges::count(Said(), said) >= times; };
    link_.on_message = [&](const v1::AgentMessage&) {
      if (heard()) loop_.Stop();
    };
    while (!heard()) loop_.Run();
    link_.on_message = nullptr;
  }

  std::vector<std::string> Said() const {
    std::vector<std::string> said;
    for (const v1::AgentMessage& message : link_.sent) said.push_back(Brief(message));
    return said;
  }

  std::string Log(const std::string& job, int64_t attempt, int rank) const {
    std::ifstream file(
        absl::StrCat(folder_, "/jobs/", job, "/attempt-", attempt, "/rank-", rank, ".log"));
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  static pid_t Pid(const std::string& text) { return static_cast<pid_t>(std::atoi(text.c_str())); }
  static bool Lives(pid_t pid) { return pid > 0 && kill(pid, 0) == 0; }

  TemporaryFolder own_folder_;
  const std::string folder_ = own_folder_.path();
  std::string spec_ = "{}";
  AgentOptions options_;
  SystemClock clock_;
  Spawner spawner_;
  EventLoop loop_{clock_};
  FakeLink link_;
  std::optional<WorkerAgent> agent_;
};

// ---- beside each other ----

TEST_F(AttemptsTest, RunsTwoJobsAtOnceAndEndsThemApart) {
  Start("am-a", 1, "ready 0; await_leave 3", 2, 0);
  Start("am-b", 1, "ready 0; finish completed 5", 2, 2);
  Await("am-b/1 empty");
  EXPECT_THAT(Said(), testing::Not(testing::Contains(HasSubstr("am-a/1 exited"))));
  Await("am-a/1 READY 1 step 0");
  Await("am-a/1 READY 0 step 0");
  Leave("am-a", 1);
  Await("am-a/1 empty");
  EXPECT_THAT(Said(), testing::Contains("am-a/1 exited 0 status 75"));
  EXPECT_THAT(Said(), testing::Contains("am-a/1 exited 1 status 75"));
  EXPECT_THAT(Said(), testing::Contains("am-b/1 exited 1 status 0"));
}

TEST_F(AttemptsTest, StartsAnAttemptOnceHoweverOftenItIsTold) {
  const std::string script = "echo started; ready 0; await_leave 1";
  Start("am-a", 1, script);
  Start("am-a", 1, script);
  Await("am-a/1 READY 0 step 0");
  Start("am-a", 1, script);
  Leave("am-a", 1);
  Await("am-a/1 empty");
  Start("am-a", 1, script);  // it is over: the same once more
  EXPECT_EQ(Log("am-a", 1, 0), "started\n");
  EXPECT_EQ(std::ranges::count(Said(), "am-a/1 started 0"), 1);
}

TEST_F(AttemptsTest, LetsAnAttemptWaitUntilItsSlotsAreFree) {
  Start("am-a", 1, "ready 0; hang", 2, 0);
  Await("am-a/1 READY 0 step 0");
  Start("am-b", 1, "ready 7; await rendezvous; await_leave 8", 1, 1);
  v1::ControllerMessage rendezvous;
  rendezvous.mutable_rendezvous()->set_job("am-b");
  rendezvous.mutable_rendezvous()->set_attempt(1);
  Agent().Handle(rendezvous);  // reaches the rank when there is one
  EXPECT_THAT(Said(), testing::Not(testing::Contains("am-b/1 started 0")));
  Kill("am-a", 1);
  Await("am-b/1 READY 0 step 7");
  std::vector<std::string> said = Said();
  EXPECT_LT(std::ranges::find(said, "am-a/1 empty"), std::ranges::find(said, "am-b/1 started 0"));
  Leave("am-b", 1);
  Await("am-b/1 exited 0 status 75");
}

TEST_F(AttemptsTest, GivesGpusAndCpuSlotsApart) {
  Start("am-a", 1, "ready 0; hang", 1, 0, /*gpus=*/true);
  Start("am-b", 1, "ready 0; finish completed 1", 1, 0);
  Await("am-b/1 empty");
}

TEST_F(AttemptsTest, ALaterAttemptTakesThePlaceOfAnEarlierOne) {
  Start("am-a", 1, "ready 0; hang");
  Await("am-a/1 READY 0 step 0");
  Start("am-a", 2, "ready 0; await_leave 1", 1, /*first_slot=*/5);
  Await("am-a/2 READY 0 step 0");
  EXPECT_THAT(Said(),
              testing::Contains("am-a/1 exited 0 signal 9 because attempt 2 takes its place"));
  Start("am-a", 1, "ready 0");  // late: void
  Leave("am-a", 2);
  Await("am-a/2 empty");
  EXPECT_EQ(std::ranges::count(Said(), "am-a/1 started 0"), 1);
}

TEST_F(AttemptsTest, ForgetsAWaitingAttemptThatIsKilled) {
  Start("am-a", 1, "ready 0; hang");
  Start("am-b", 1, "ready 0; hang");
  Kill("am-b", 1);
  EXPECT_THAT(Said(), testing::Contains("am-b/1 empty"));
  Kill("am-a", 1);
  Await("am-a/1 empty");
  EXPECT_THAT(Said(), testing::Not(testing::Contains("am-b/1 started 0")));
}

// ---- slots ----

TEST_F(AttemptsTest, ShowsEachRankTheGpuOfItsSlotAlone) {
  options_.environment.push_back("CUDA_VISIBLE_DEVICES=4,5,GPU-6,7");
  options_.gpus = 4;
  Start("am-a", 1, "echo $CUDA_VISIBLE_DEVICES $OMP_NUM_THREADS $AMCTL_JOB/$AMCTL_ATTEMPT", 2, 1,
        /*gpus=*/true);
  Await("am-a/1 empty");
  EXPECT_EQ(Log("am-a", 1, 0), "5 2 am-a/1\n");
  EXPECT_EQ(Log("am-a", 1, 1), "GPU-6 2 am-a/1\n");
}

TEST_F(AttemptsTest, DividesTheCoresAmongTheCpuSlots) {
  options_.cpu_slots = 4;
  spec_ = R"({"dist":{"threads":0}})";
  Start("am-a", 1, "echo $OMP_NUM_THREADS ${CUDA_VISIBLE_DEVICES-none}; grep threads $1");
  Await("am-a/1 empty");
  EXPECT_EQ(Log("am-a", 1, 0), "2 none\n  \"threads\": 2\n");
}

// ---- what ranks leave behind ----

// Until it has become tail it still bears what its shell did.
constexpr char kThenReady[] =
    "; until read -r pid <${1%/*}/rank-$RANK.log && [ \"$(cat /proc/$pid/comm)\" = tail ]; do :; "
    "done; ready 0; ";

TEST_F(AttemptsTest, SweepsTheStraysOfOneJobAndLetsThoseOfAnotherLive) {
  // In a session of its own, its parent gone: only environment and lifeline tell whose it is.
  const std::string stray = absl::StrCat("setsid sh -c 'tail -f /dev/null & echo $!'", kThenReady);
  Start("am-a", 1, stray + "await_leave 1", 1, 0);
  Start("am-b", 1, stray + "await_leave 1", 1, 1);
  Await("am-a/1 READY 0 step 0");
  Await("am-b/1 READY 0 step 0");
  pid_t of_a = Pid(Log("am-a", 1, 0));
  pid_t of_b = Pid(Log("am-b", 1, 0));
  ASSERT_TRUE(Lives(of_a));
  ASSERT_TRUE(Lives(of_b));
  Leave("am-b", 1);
  Await("am-b/1 empty");
  EXPECT_TRUE(Lives(of_a));
  EXPECT_FALSE(Lives(of_b));
  Leave("am-a", 1);
  Await("am-a/1 empty");
  EXPECT_FALSE(Lives(of_a));
}

TEST_F(AttemptsTest, KnowsAStrayByAnySingleMark) {
  const char* cases[] = {
      // the environment, in another session, descriptors closed
      "setsid sh -c 'tail -f /dev/null 3>&- 4>&- 5>&- 6>&- & echo $!'",
      // the lifeline, in another session, environment replaced
      "setsid env -i /bin/sh -c '/usr/bin/tail -f /dev/null & echo $!'",
      // the session alone
      "env -i /bin/sh -c '/usr/bin/tail -f /dev/null 3>&- 4>&- 5>&- 6>&- & echo $!'",
  };
  Start("am-other", 1, "ready 0; await_leave 1", 1, 7);
  int64_t attempt = 0;
  for (const char* script : cases) {
    Start("am-a", ++attempt, absl::StrCat(script, kThenReady));
    Await(absl::StrCat("am-a/", attempt, " empty"));
    pid_t stray = Pid(Log("am-a", attempt, 0));
    EXPECT_GT(stray, 0) << script;
    EXPECT_FALSE(Lives(stray)) << script;
  }
}

TEST_F(AttemptsTest, LeavesAStrayWithoutAnyMarkUntilOneJobIsLeft) {
  const std::string stray =
      "setsid env -i /bin/sh -c '/usr/bin/tail -f /dev/null 3>&- 4>&- 5>&- 6>&- & echo $!'";
  Start("am-a", 1, "ready 0; await_leave 1", 1, 0);
  Start("am-b", 1, absl::StrCat(stray, kThenReady), 1, 1);
  Await("am-b/1 empty");
  pid_t pid = Pid(Log("am-b", 1, 0));
  EXPECT_TRUE(Lives(pid));
  Await("am-a/1 READY 0 step 0");
  Leave("am-a", 1);
  Await("am-a/1 empty");
  EXPECT_FALSE(Lives(pid));
}

// ---- a controller that comes and goes ----

TEST_F(AttemptsTest, TellsTheStateAgainBehindEveryHelloUntilItMayBeForgotten) {
  Start("am-a", 1, "hello; ready 0; step 1; checkpoint 1; step 2; checkpoint 2; await_leave 3");
  Start("am-b", 4, "hello; fail io 'disk full' 74", 1, 1);
  Await("am-a/1 CHECKPOINT_DONE 0 step 2");
  Await("am-b/4 empty");
  agent_->Disconnected();
  link_.sent.clear();
  agent_->Connected(link_);
  EXPECT_THAT(Said(),
              ElementsAre("hello am-a/1 am-b/4", "am-a/1 started 0", "am-a/1 READY 0 step 0",
                          "am-a/1 CHECKPOINT_DONE 0 step 2", "am-b/4 started 0",
                          "am-b/4 FAILED 0 step 0", "am-b/4 exited 0 status 74", "am-b/4 empty"));
  Forget("am-b", 4);
  Forget("am-a", 1);  // still runs: forgotten when it has ended
  agent_->Disconnected();
  link_.sent.clear();
  agent_->Connected(link_);
  EXPECT_EQ(Said().front(), "hello am-a/1");
  Leave("am-a", 1);
  Await("am-a/1 empty");
  agent_->Disconnected();
  link_.sent.clear();
  agent_->Connected(link_);
  EXPECT_THAT(Said(), ElementsAre("hello"));
}

TEST_F(AttemptsTest, GoesOnWhileTheControllerIsAwayAndTellsItAll) {
  Start("am-a", 1, "ready 0; await rendezvous; step 1; checkpoint 1; step 2; finish completed 2");
  Await("am-a/1 READY 0 step 0");
  // The word is given, and the way to the controller is lost: there is nobody to hear of the end.
  v1::ControllerMessage rendezvous;
  rendezvous.mutable_rendezvous()->set_job("am-a");
  rendezvous.mutable_rendezvous()->set_attempt(1);
  Agent().Handle(rendezvous);
  agent_->Disconnected();
  link_.sent.clear();
  agent_->Shutdown("only to see when it is idle", std::chrono::hours(1), [this] { loop_.Stop(); });
  loop_.Run();
  EXPECT_THAT(Said(), IsEmpty());
  agent_->Connected(link_);
  EXPECT_THAT(Said(),
              ElementsAre("hello am-a/1", "am-a/1 started 0", "am-a/1 READY 0 step 0",
                          "am-a/1 CHECKPOINT_DONE 0 step 1", "am-a/1 DONE 0 step 2",
                          "am-a/1 exited 0 status 0", "am-a/1 empty", "am-a/1 STEP 0 step 1",
                          "am-a/1 CHECKPOINT_BEGUN 0 step 1", "am-a/1 STEP 0 step 2"));
}

TEST_F(AttemptsTest, SaysThatItLivesWhenThereIsNothingElseToSay) {
  options_.heartbeat_interval = std::chrono::milliseconds(1);
  Agent();
  Await("heartbeat", 3);
}

TEST_F(AttemptsTest, SaysWhatTheNodeHas) {
  options_.node = "n7";
  options_.gpus = 8;
  options_.cpu_slots = 16;
  options_.nvlink_domain = "c.1";
  options_.version = "1.2.3";
  Agent();
  const v1::AgentHello hello = link_.sent[0].hello();
  EXPECT_EQ(hello.node(), "n7");
  EXPECT_EQ(hello.gpus(), 8);
  EXPECT_EQ(hello.cpu_slots(), 16);
  EXPECT_EQ(hello.nvlink_domain(), "c.1");
  EXPECT_EQ(hello.version(), "1.2.3");
  EXPECT_EQ(hello.boot_id().size(), 36u);
  WorkerAgent other(loop_, spawner_, options_);
  other.Connected(link_);
  EXPECT_NE(link_.sent[1].hello().instance(), hello.instance());
}

TEST_F(AttemptsTest, ShutdownAsksToLeaveAndThenKills) {
  Start("am-a", 1, "ready 0; case $RANK in 0) await_leave 1;; *) hang;; esac", 2);
  Await("am-a/1 READY 0 step 0");
  Await("am-a/1 READY 1 step 0");
  Start("am-b", 1, "ready 0");  // waits for the slot
  agent_->Shutdown("the controller is away", std::chrono::hours(1), [] {});
  Await("am-a/1 exited 0 status 75");
  agent_->Shutdown("the controller is away", {}, [] {});  // hastens it
  Await("am-a/1 empty");
  EXPECT_THAT(Said(), testing::Contains("am-b/1 start failed: the controller is away"));
  EXPECT_THAT(Said(), testing::Contains("am-a/1 exited 0 status 75"));
  EXPECT_THAT(Said(), testing::Contains("am-a/1 exited 1 signal 9 because the controller is away"));
  Start("am-c", 1, "ready 0");
  EXPECT_EQ(Said().back(), "am-c/1 empty");
}

// ---- what is kept while nobody listens ----

v1::AgentMessage Event(v1::RankEvent::Type type, int64_t step) {
  v1::AgentMessage message;
  message.mutable_rank_event()->set_job("am-a");
  message.mutable_rank_event()->set_attempt(1);
  message.mutable_rank_event()->set_type(type);
  message.mutable_rank_event()->set_step(step);
  message.mutable_rank_event()->set_json(std::string(100, 'x'));
  return message;
}

TEST(Outbox, DropsTheOldestNewsAndNeverState) {
  Outbox outbox(/*max_news_bytes=*/1000);
  FakeLink link;
  outbox.Begin({"am-a", 1});
  for (int64_t step = 1; step <= 100; ++step) {
    outbox.TellNews(Event(v1::RankEvent::STEP, step));
    outbox.TellState({"am-a", 1}, Event(v1::RankEvent::READY, step));
  }
  outbox.Connected(link, {});
  int state = 0;
  std::vector<int64_t> news;
  for (const v1::AgentMessage& message : link.sent) {
    state += message.rank_event().type() == v1::RankEvent::READY;
    if (message.rank_event().type() == v1::RankEvent::STEP) {
      news.push_back(message.rank_event().step());
    }
  }
  EXPECT_EQ(state, 100);
  ASSERT_GT(news.size(), 3u);
  EXPECT_LT(news.size(), 10u);
  EXPECT_EQ(news.back(), 100);
  EXPECT_EQ(news.front(), 101 - static_cast<int64_t>(news.size()));
}

}  // namespace
}  // namespace am::agent

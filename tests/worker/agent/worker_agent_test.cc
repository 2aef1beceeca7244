// The agent with real processes: tests/fakes/rank.sh stands in for am-rank.
#include "worker/agent/worker_agent.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <sstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/worker/agent/fake_link.h"

namespace am::agent {
namespace {

namespace v1 = amctl::v1;

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::UnorderedElementsAre;

class WorkerAgentTest : public testing::Test {
 protected:
  WorkerAgentTest() {
    signal(SIGPIPE, SIG_IGN);  // as the programs do: a rank may be gone when it is told
    std::string folder = testing::TempDir() + "/am_agent_XXXXXX";
    folder_ = mkdtemp(folder.data());
    const char* source = getenv("AMCTL_SOURCE_DIR");
    program_ = absl::StrCat(source == nullptr ? "." : source, "/tests/fakes/rank.sh");
  }

  // Runs an attempt of ranks that do what `script` says, until the agent says that nothing is left
  // of it.
  void Run(const std::string& script, int world_size = 1,
           std::function<void(WorkerAgent&, const v1::AgentMessage&)> on_message = {}) {
    AgentOptions options{.state_dir = folder_,
                         .rank_program = program_,
                         .environment = {"PATH=/usr/bin:/bin", "FAKE_RANK=" + script},
                         .cores = 8};
    WorkerAgent agent(loop_, spawner_, options);
    agent.Connected(link_);
    link_.sent.clear();
    link_.on_message = [&](const v1::AgentMessage& message) {
      if (message.has_attempt_empty()) loop_.Stop();
      if (on_message) loop_.Post([&agent, on_message, message] { on_message(agent, message); });
    };
    v1::ControllerMessage message;
    v1::StartRanks* start = message.mutable_start_ranks();
    start->set_job("am-test");
    start->set_attempt(1);
    start->set_world_size(world_size);
    start->set_rank_spec_json(
        R"({"job":"","attempt":0,"checkpoint":{"fresh":true,"restore_from":"x"}})");
    start->set_resume_own_checkpoint(resume_own_checkpoint_);
    start->set_store_bind_host("127.0.0.1");
    for (int rank = 0; rank < world_size; ++rank) {
      v1::RankPlace* place = start->add_ranks();
      place->set_rank(rank);
      place->set_local_rank(rank);
    }
    loop_.Post([&agent, message] { agent.Handle(message); });
    loop_.Run();
  }

  std::vector<v1::RankExited> Exits() const {
    std::vector<v1::RankExited> exits;
    for (const auto& message : link_.sent) {
      if (message.has_rank_exited()) exits.push_back(message.rank_exited());
    }
    return exits;
  }

  std::string Log(int rank) const {
    std::ifstream file(absl::StrCat(folder_, "/jobs/am-test/attempt-1/rank-", rank, ".log"));
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }

  static v1::ControllerMessage Leave() {
    v1::ControllerMessage message;
    message.mutable_leave_ranks()->set_job("am-test");
    message.mutable_leave_ranks()->set_attempt(1);
    message.mutable_leave_ranks()->set_grace_ms(1000);
    return message;
  }
  static v1::ControllerMessage Kill(int64_t attempt = 1) {
    v1::ControllerMessage message;
    message.mutable_kill_ranks()->set_job("am-test");
    message.mutable_kill_ranks()->set_attempt(attempt);
    message.mutable_kill_ranks()->set_because("rank 1 failed");
    return message;
  }
  static bool IsReady(const v1::AgentMessage& message) {
    return message.has_rank_event() && message.rank_event().type() == v1::RankEvent::READY;
  }

  std::string folder_, program_;
  bool resume_own_checkpoint_ = false;
  SystemClock clock_;
  Spawner spawner_;
  EventLoop loop_{clock_};
  FakeLink link_;
};

TEST_F(WorkerAgentTest, GivesARankItsPlaceItsThreadsAndItsSpec) {
  Run("echo $RANK $LOCAL_RANK $WORLD_SIZE $OMP_NUM_THREADS $OMP_WAIT_POLICY; grep -c . $1; cat $1",
      2);
  EXPECT_THAT(Log(0), HasSubstr("0 0 2 4 passive\n"));
  EXPECT_THAT(Log(1), HasSubstr("1 1 2 4 passive\n"));
  EXPECT_THAT(Log(1), HasSubstr(R"("job": "am-test")"));
  EXPECT_THAT(Log(1), HasSubstr(R"("attempt": 1)"));
  EXPECT_THAT(Log(1), HasSubstr(R"("fresh": true)"));
}

TEST_F(WorkerAgentTest, MakesALaterAttemptGoOnFromItsOwnCheckpoint) {
  resume_own_checkpoint_ = true;
  Run("cat $1");
  EXPECT_THAT(Log(0), HasSubstr(R"("fresh": false)"));
  EXPECT_THAT(Log(0), HasSubstr(R"("restore_from": "")"));
}

TEST_F(WorkerAgentTest, HandsTheStoresListeningSocketToRankZeroAlone) {
  Run("[ -n \"$AMCTL_STORE_FD\" ] && readlink /proc/$$/fd/$AMCTL_STORE_FD || echo none", 2);
  EXPECT_THAT(Log(0), HasSubstr("socket:"));
  EXPECT_EQ(Log(1), "none\n");
  uint32_t port = 0;
  for (const auto& message : link_.sent) {
    if (message.has_store_listening()) port = message.store_listening().port();
  }
  EXPECT_GT(port, 0u);
}

TEST_F(WorkerAgentTest, RelaysEventsInOrderAndTheExitLast) {
  Run("hello; ready 7; step 8; checkpoint 8; fail user 'bad data' 2");
  std::vector<std::string> order;
  for (const auto& message : link_.sent) {
    if (message.has_rank_event()) {
      order.push_back(v1::RankEvent::Type_Name(message.rank_event().type()));
    } else if (message.has_rank_exited()) {
      order.push_back(absl::StrCat("exit ", message.rank_exited().exit_code()));
    } else if (message.has_attempt_empty()) {
      order.push_back("empty");
    }
  }
  EXPECT_THAT(order, ElementsAre("HELLO", "READY", "STEP", "CHECKPOINT_BEGUN", "CHECKPOINT_DONE",
                                 "FAILED", "exit 2", "empty"));
  const v1::RankEvent& failed = link_.sent[link_.sent.size() - 3].rank_event();
  EXPECT_EQ(failed.kind(), "user");
  EXPECT_EQ(failed.message(), "bad data");
}

TEST_F(WorkerAgentTest, DropsLinesThatAreNoEvents) {
  Run("echo nonsense >&3; printf '\\200\\n{\"v\":2}\\n' >&3; ready 0");
  int events = 0;
  for (const auto& message : link_.sent) events += message.has_rank_event();
  EXPECT_EQ(events, 1);
}

TEST_F(WorkerAgentTest, CapturesBytesAsTheyAre) {
  Run("printf 'plain\\n\\200\\303\\n\\000nul\\n10%%\\r20%%\\r\\nno newline'; echo err >&2");
  EXPECT_EQ(Log(0),
            "plain\n\x80\xc3\n" + std::string("\0nul\n", 5) + "10%\r20%\r\nno newlineerr\n");
  EXPECT_THAT(Exits()[0].last_lines(), ElementsAre("plain", "\x80\xc3", std::string("\0nul", 4),
                                                   "10%\r20%\r", "no newlineerr"));
}

TEST_F(WorkerAgentTest, CapturesALineOfAMegabyteAndKeepsItsHead) {
  Run("head -c 1048576 /dev/zero | tr '\\0' x; echo; echo after");
  EXPECT_EQ(Log(0).size(), 1048576u + 7);
  ASSERT_EQ(Exits()[0].last_lines_size(), 2);
  EXPECT_THAT(Exits()[0].last_lines(0), HasSubstr("xxx [1044480 more bytes in the log]"));
  EXPECT_EQ(Exits()[0].last_lines(1), "after");
}

TEST_F(WorkerAgentTest, KeepsTheLastTwoHundredLines) {
  Run("seq 1000");
  EXPECT_EQ(Exits()[0].last_lines_size(), 200);
  EXPECT_EQ(Exits()[0].last_lines(0), "801");
  EXPECT_EQ(Exits()[0].last_lines(199), "1000");
}

TEST_F(WorkerAgentTest, TellsASignalFromAStatus) {
  Run("case $RANK in 0) exit 3;; 1) kill -SEGV $$;; 2) kill -9 $$;; esac", 3);
  std::vector<std::string> ends;
  for (const v1::RankExited& exit : Exits()) {
    ends.push_back(absl::StrCat(exit.rank(), ":", exit.exit_code(), ":", exit.signal()));
  }
  EXPECT_THAT(ends, UnorderedElementsAre("0:3:0", "1:0:11", "2:0:9"));
}

TEST_F(WorkerAgentTest, PassesTheRendezvousAndTheWordToLeaveOn) {
  Run("await rendezvous; echo \"$message\"; ready 0; await_leave 5", 2,
      [&](WorkerAgent& agent, const v1::AgentMessage& message) {
        if (message.has_store_listening()) {
          v1::ControllerMessage rendezvous;
          rendezvous.mutable_rendezvous()->set_job("am-test");
          rendezvous.mutable_rendezvous()->set_attempt(1);
          rendezvous.mutable_rendezvous()->set_address("127.0.0.1:1");
          rendezvous.mutable_rendezvous()->set_prefix("am-test/1");
          agent.Handle(rendezvous);
        }
        static int ready = 0;
        if (IsReady(message) && ++ready == 2) agent.Handle(Leave());
      });
  EXPECT_THAT(Log(1), HasSubstr(R"("address":"127.0.0.1:1","prefix":"am-test/1")"));
  ASSERT_EQ(Exits().size(), 2u);
  for (const v1::RankExited& exit : Exits()) {
    EXPECT_EQ(exit.exit_code(), 75);
    EXPECT_THAT(exit.killed_because(), IsEmpty());
  }
}

TEST_F(WorkerAgentTest, KillsARankThatDoesNotListenAndSaysWhy) {
  Run("trap '' TERM INT; ready 0; hang", 1,
      [&](WorkerAgent& agent, const v1::AgentMessage& message) {
        if (IsReady(message)) agent.Handle(Kill());
      });
  EXPECT_EQ(Exits()[0].signal(), SIGKILL);
  EXPECT_EQ(Exits()[0].killed_because(), "rank 1 failed");
}

TEST_F(WorkerAgentTest, IgnoresOrdersForAnotherAttempt) {
  Run("ready 0; await_leave 1", 1, [&](WorkerAgent& agent, const v1::AgentMessage& message) {
    if (!IsReady(message)) return;
    agent.Handle(Kill(/*attempt=*/7));
    agent.Handle(Leave());
  });
  EXPECT_EQ(Exits()[0].exit_code(), 75);
}

TEST_F(WorkerAgentTest, SweepsWhatForkedAwayFromItsRank) {
  // A child in a session of its own, twice forked, that holds no descriptor of the rank but its
  // log.
  Run("setsid sh -c '(echo $$ pid; exec tail -f /dev/null) & exit' ; ready 0; "
      "setsid sh -c 'trap \"\" TERM HUP; exec tail -f /dev/null' & exit 0");
  EXPECT_THAT(spawner_.Strays({}), IsEmpty());
  const v1::AttemptEmpty& empty = link_.sent.back().attempt_empty();
  EXPECT_THAT(empty.unkillable_pids(), IsEmpty());
}

TEST_F(WorkerAgentTest, ReportsAProgramThatCannotBeStarted) {
  program_ = "/nonexistent/am-rank";
  Run("");
  ASSERT_EQ(link_.sent.size(), 2u);
  EXPECT_THAT(link_.sent[0].start_failed().message(),
              HasSubstr("cannot execute /nonexistent/am-rank: No such file or directory"));
  EXPECT_TRUE(link_.sent[1].has_attempt_empty());
}

TEST_F(WorkerAgentTest, ReportsAStateFolderThatCannotBeWritten) {
  std::ofstream(folder_ + "/file") << "x";
  folder_ += "/file";
  Run("");
  EXPECT_THAT(link_.sent[0].start_failed().message(), HasSubstr(folder_));
  EXPECT_TRUE(link_.sent[1].has_attempt_empty());
}

TEST_F(WorkerAgentTest, ShutdownLeavesNothing) {
  bool idle = false;
  Run("ready 0; hang", 2, [&](WorkerAgent& agent, const v1::AgentMessage& message) {
    static int ready = 0;
    if (IsReady(message) && ++ready == 2)
      agent.Shutdown("the controller is gone", {}, [&] { idle = true; });
  });
  EXPECT_TRUE(idle);
  EXPECT_EQ(Exits().size(), 2u);
  EXPECT_EQ(Exits()[0].killed_because(), "the controller is gone");
}

}  // namespace
}  // namespace am::agent

// Controller and agent over the real gRPC service on a unix socket; a shell script is the rank.
#include "controller/server/agent_service.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/file.h"
#include "controller/backend/job_driver.h"
#include "controller/server/unix_listener.h"
#include "tests/support/temporary_folder.h"
#include "worker/agent/run_agent.h"

namespace am::controller {
namespace {

using testing::HasSubstr;

std::string RankProgram() {
  const char* source = getenv("AMCTL_SOURCE_DIR");
  return absl::StrCat(source == nullptr ? "." : source, "/tests/fakes/rank.sh");
}

// Told to stop by Stop(), as am-worker is by SIGTERM.
class StopPipe {
 public:
  StopPipe() : pipe_(*MakePipe()) {}
  int fd() const { return pipe_.read.get(); }
  void Stop() { EXPECT_EQ(write(pipe_.write.get(), "stop", 4), 4); }

 private:
  Pipe pipe_;
};

// An agent in a thread of its own.
class AgentThread {
 public:
  AgentThread(const std::string& socket, agent::AgentOptions options)
      : thread_([this, socket, options = std::move(options)] {
          reason_ = agent::RunAgent("unix:" + socket, clock_, spawner_, options, stop_.fd());
        }) {}
  ~AgentThread() {
    if (!thread_.joinable()) return;
    stop_.Stop();
    thread_.join();
  }
  // Until it ends by itself. Why it did.
  std::string Join() {
    thread_.join();
    return reason_;
  }
  std::vector<pid_t> Strays() const { return spawner_.Strays({}); }

 private:
  SystemClock clock_;
  Spawner spawner_;
  StopPipe stop_;
  std::string reason_;
  std::thread thread_;
};

class AgentServiceTest : public testing::Test {
 protected:
  // A controller's ears: writes down what comes, and lets a test wait for it.
  struct Ears {
    Ears(EventLoop& loop, const std::string& socket)
        : loop(loop),
          service(loop, AgentService::Nodes::kNamed,
                  {.on_hello =
                       [this](const NodeHello& hello) {
                         hellos.push_back(hello);
                         Hear(absl::StrCat("hello ", hello.name));
                       },
                   .on_heard = [this](const std::string& node) { heard += node; },
                   .on_closed = [this](const std::string& node,
                                       const std::string&) { Hear("closed " + node); },
                   .on_observation = [this](const std::string& job,
                                            const Observation& seen) { See(job, seen); },
                   .on_rank_event = [](const std::string&, int64_t, int, const std::string&) {}}),
          listener(*UnixListener::Listen(loop, socket,
                                         [this](UniqueFd fd) { service.Adopt(std::move(fd)); })) {}

    void See(const std::string& job, const Observation& seen) {
      if (auto* started = std::get_if<RankStarted>(&seen)) {
        pids.push_back(started->pid);
        Hear(absl::StrCat(job, " started ", started->rank));
      }
      if (auto* ready = std::get_if<RankReady>(&seen)) {
        Hear(absl::StrCat(job, " ready ", ready->rank));
      }
      if (auto* exited = std::get_if<RankExited>(&seen)) {
        Hear(absl::StrCat(job, " exited ", exited->rank, " ", exited->exit.code));
      }
      if (auto* listening = std::get_if<StoreListening>(&seen)) address = listening->address;
      if (auto* empty = std::get_if<AttemptEmpty>(&seen)) {
        Hear(absl::StrCat(job, " empty on ", empty->node));
      }
    }
    void Hear(std::string what) {
      said.push_back(std::move(what));
      loop.Stop();
    }
    void Await(const std::string& what) {
      while (std::ranges::find(said, what) == said.end()) loop.Run();
    }

    EventLoop& loop;
    std::vector<std::string> said;
    std::vector<NodeHello> hellos;
    std::vector<int64_t> pids;
    std::string heard, address;
    AgentService service;
    std::unique_ptr<UnixListener> listener;
  };

  AgentServiceTest() {
    signal(SIGPIPE, SIG_IGN);  // as the programs do: a rank may be gone when it is told
  }

  std::string Socket() const { return folder_ + "/s"; }

  agent::AgentOptions Options(const std::string& node, const std::string& script) const {
    return {.state_dir = folder_,
            .rank_program = RankProgram(),
            .environment = {"PATH=/usr/bin:/bin", "FAKE_RANK=" + script},
            .node = node};
  }

  // Runs a job to its end whose ranks do what the script says, on agents that are there or come.
  Job Run(const Placement& placement, int world_size, const std::function<void()>& before) {
    EventLoop loop(clock_);
    JobDriver* driver = nullptr;
    std::set<std::string> nodes;
    auto turn = [&] {
      driver->Turn();
      if (driver->finished()) loop.Stop();
    };
    AgentService service(
        loop, AgentService::Nodes::kNamed,
        {.on_hello =
             [&](const NodeHello& hello) {
               nodes.insert(hello.name);
               if (nodes.size() < placement.size() ||
                   driver->job().status.phase != JobPhase::kPending) {
                 return;
               }
               driver->Place(placement);
               turn();
             },
         .on_heard = [](const std::string&) {},
         .on_closed =
             [&](const std::string& node, const std::string& reason) {
               if (driver->Observe(AgentLost{node, reason})) turn();
             },
         .on_observation =
             [&](const std::string&, const Observation& seen) {
               if (driver->Observe(seen)) turn();
             },
         .on_rank_event =
             [&](const std::string& job, int64_t attempt, int rank, const std::string& json) {
               events_ += absl::StrCat(job, " ", attempt, "/", rank, " ", json, "\n");
             }});
    JobDriver job({.id = "am-test", .rank_spec_json = "{}", .world_size = world_size}, service,
                  clock_, [&](const Announce& news) { said_ += news.text + "\n"; });
    driver = &job;
    auto listener = UnixListener::Listen(
        loop, Socket(), [&](UniqueFd connection) { service.Adopt(std::move(connection)); });
    EXPECT_TRUE(listener.ok()) << listener.status();
    before();
    loop.Run();
    service.Close();
    return job.job();
  }

  Job RunOnOneNode(const std::string& script, int world_size) {
    std::optional<AgentThread> agent;
    std::vector<int> slots(static_cast<size_t>(world_size));
    std::iota(slots.begin(), slots.end(), 0);
    return Run({{.node = "n1", .slots = slots}}, world_size,
               [&] { agent.emplace(Socket(), Options("n1", script)); });
  }

  SystemClock clock_;
  TemporaryFolder own_folder_;
  const std::string folder_ = own_folder_.path();
  std::string events_, said_;
};

TEST_F(AgentServiceTest, SeesAJobToItsEnd) {
  Job job = RunOnOneNode("hello; await rendezvous; ready 0; step 1; finish completed 1", 2);
  EXPECT_EQ(job.status.phase, JobPhase::kSucceeded);
  EXPECT_THAT(events_, HasSubstr(R"(am-test 1/1 {"v":1,"type":"done")"));
}

TEST_F(AgentServiceTest, RestartsTheGroupWhenARankIsKilled) {
  Job job =
      RunOnOneNode("hello; ready 0; case $RANK/$ATTEMPT in 1/1) kill -9 $$;; 0/1) hang;; esac", 2);
  EXPECT_EQ(job.status.phase, JobPhase::kSucceeded);
  EXPECT_EQ(job.status.attempt, 2);
  EXPECT_THAT(said_, HasSubstr("rank 1 was killed by signal 9 (SIGKILL); restarting"));
}

TEST_F(AgentServiceTest, CarriesTheLastLinesOfALogAsBytes) {
  Job job = RunOnOneNode("printf '\\200\\n'; exit 2", 1);
  EXPECT_EQ(job.status.phase, JobPhase::kFailed);
  EXPECT_THAT(job.status.failure->last_lines, testing::ElementsAre("\x80"));
}

// Two am-worker on one host: one job over both, with a rank lost on the second.
TEST_F(AgentServiceTest, RunsOneJobOnTwoNodes) {
  const char* bin = getenv("AMCTL_BIN_DIR");
  if (bin == nullptr) GTEST_SKIP() << "AMCTL_BIN_DIR is not set: where am-worker is";
  Spawner spawner;
  std::vector<Child> workers;
  Job job = Run({{.node = "n1", .slots = {0, 1}}, {.node = "n2", .slots = {3}}}, 3, [&] {
    for (const char* node : {"n1", "n2"}) {
      absl::StatusOr<Child> worker = spawner.Spawn(
          {.program = absl::StrCat(bin, "/am-worker"),
           .args = {"--controller", "unix:" + Socket(), "--node-name", node, "--slots", "4",
                    "--state-dir", absl::StrCat(folder_, "/", node)},
           .env = {"PATH=/usr/bin:/bin", "AMCTL_RANK_PROGRAM=" + RankProgram(),
                   "FAKE_RANK=echo $RANK $LOCAL_RANK $WORLD_SIZE; hello; await rendezvous; "
                   "echo \"$message\"; ready 0; case $RANK/$ATTEMPT in 2/1) exit 70;; "
                   "*/1) hang;; esac; finish completed 1"}});
      ASSERT_TRUE(worker.ok()) << worker.status();
      workers.push_back(*std::move(worker));
    }
  });
  EXPECT_EQ(job.status.phase, JobPhase::kSucceeded);
  EXPECT_EQ(job.status.attempt, 2);
  auto log = [&](const std::string& node, int rank) {
    return *ReadFile(
        absl::StrCat(folder_, "/", node, "/jobs/am-test/attempt-2/rank-", rank, ".log"));
  };
  EXPECT_THAT(log("n1", 1), HasSubstr("1 1 3\n"));
  EXPECT_THAT(log("n2", 2), HasSubstr("2 0 3\n"));
  EXPECT_THAT(log("n2", 2), HasSubstr(R"("address":"127.0.0.1:)"));
  EXPECT_THAT(log("n2", 2), HasSubstr(R"("prefix":"am-test/2")"));
  for (Child& worker : workers) {
    kill(worker.pid, SIGTERM);
    int status = 0;
    EXPECT_EQ(waitpid(worker.pid, &status, 0), worker.pid);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}

// ---- a controller that goes away ----

TEST_F(AgentServiceTest, FindsTheRunningJobAgainAfterARestartOfTheController) {
  agent::AgentOptions options =
      Options("n1", "echo started; hello; ready 0; step 1; await_leave 2");
  options.reconnect_for = std::chrono::hours(1);
  AgentThread agent(Socket(), options);
  const JobSpec spec{.id = "am-test", .rank_spec_json = "{}", .world_size = 2};
  const Placement placement = {{.node = "n1", .slots = {0, 1}}};
  std::vector<int64_t> pids;
  std::string address;
  EventLoop loop(clock_);
  {
    Ears ears(loop, Socket());
    ears.Await("hello n1");
    EXPECT_THAT(ears.hellos[0].attempts, testing::IsEmpty());
    ears.service.Start(spec, placement, {.attempt = 1});
    ears.service.Start(spec, placement, {.attempt = 1});  // once is enough
    ears.Await("am-test ready 0");
    ears.Await("am-test ready 1");
    pids = ears.pids;
    address = ears.address;
    EXPECT_THAT(address, testing::StartsWith("127.0.0.1:"));
    ears.service.Close();
  }
  {
    EventLoop later(clock_);
    Ears ears(later, Socket());
    ears.Await("hello n1");
    EXPECT_THAT(ears.hellos[0].attempts, testing::ElementsAre(testing::Pair("am-test", 1)));
    ears.Await("am-test ready 0");
    ears.Await("am-test ready 1");
    EXPECT_EQ(ears.pids, pids);  // the same ranks
    EXPECT_EQ(ears.address, address);
    EXPECT_THAT(ears.heard, testing::StartsWith("n1n1"));
    ears.service.Start(spec, placement, {.attempt = 1});  // a controller that does not know better
    ears.service.Leave(spec, placement, {.attempt = 1, .grace = std::chrono::hours(1)});
    ears.Await("am-test empty on n1");
    EXPECT_THAT(ears.said, testing::Contains("am-test exited 0 75"));
    EXPECT_THAT(ears.said, testing::Contains("am-test exited 1 75"));
    EXPECT_EQ(ears.pids, pids);
    EXPECT_EQ(*ReadFile(folder_ + "/jobs/am-test/attempt-1/rank-0.log"), "started\n");
    ears.service.Forget("am-test", 1, placement);
    ears.service.Close();
  }
  EventLoop last(clock_);
  Ears ears(last, Socket());
  ears.Await("hello n1");
  EXPECT_THAT(ears.hellos[0].attempts, testing::IsEmpty());
  ears.service.Close();
}

TEST_F(AgentServiceTest, RanksSaveAndLeaveAndAreKilledWhenTheControllerStaysAway) {
  agent::AgentOptions options =
      Options("n1",
              "ready 0; case $RANK in 0) await leave; echo left; exit 75;; "
              "*) setsid tail -f /dev/null & trap '' TERM; hang;; esac");
  options.reconnect_for = std::chrono::milliseconds(20);
  options.leave_grace = std::chrono::seconds(2);
  std::optional<AgentThread> agent;
  {
    EventLoop loop(clock_);
    Ears ears(loop, Socket());
    agent.emplace(Socket(), options);  // finds the controller at once
    ears.Await("hello n1");
    ears.service.Start({.id = "am-test", .rank_spec_json = "{}", .world_size = 2},
                       {{.node = "n1", .slots = {0, 1}}}, {.attempt = 1});
    ears.Await("am-test ready 0");
    ears.Await("am-test ready 1");
    ears.service.Close();
  }
  EXPECT_THAT(agent->Join(), testing::Not(testing::IsEmpty()));
  EXPECT_EQ(*ReadFile(folder_ + "/jobs/am-test/attempt-1/rank-0.log"), "left\n");
  EXPECT_THAT(agent->Strays(), testing::IsEmpty());
}

TEST_F(AgentServiceTest, RefusesASecondAgentUnderTheNameOfOneThatIsThere) {
  EventLoop loop(clock_);
  Ears ears(loop, Socket());
  AgentThread first(Socket(), Options("n1", ""));
  ears.Await("hello n1");
  std::thread second([&] {
    Spawner spawner;
    std::string why = agent::RunAgent("unix:" + Socket(), clock_, spawner, Options("n1", ""));
    loop.Post([&ears, why] { ears.Hear(why); });
  });
  ears.Await(absl::StrCat("node n1 has an agent already, process ", getpid(),
                          "; stop that one, or give this one another --node-name"));
  second.join();
  EXPECT_EQ(ears.hellos.size(), 1u);
  EXPECT_THAT(ears.said, testing::Not(testing::Contains("closed n1")));
  ears.service.Close();
}

TEST(UnixListener, IsForItsOwnerAloneAndLeavesNothing) {
  TemporaryFolder folder;
  std::string path = folder / "s";
  SystemClock clock;
  EventLoop loop(clock);
  {
    auto listener = UnixListener::Listen(loop, path, [](UniqueFd) {});
    ASSERT_TRUE(listener.ok());
    struct stat status;
    ASSERT_EQ(stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600u);
    auto second = UnixListener::Listen(loop, path, [](UniqueFd) {});
    EXPECT_THAT(std::string(second.status().message()),
                HasSubstr(path + ": Address already in use"));
  }
  EXPECT_NE(access(path.c_str(), F_OK), 0);
}

TEST(UnixListener, RefusesAPathThatTheKernelCannotTake) {
  SystemClock clock;
  EventLoop loop(clock);
  auto listener = UnixListener::Listen(loop, "/tmp/" + std::string(103, 'x'), [](UniqueFd) {});
  EXPECT_THAT(std::string(listener.status().message()),
              HasSubstr("has 108 bytes and the system allows 107"));
}

}  // namespace
}  // namespace am::controller

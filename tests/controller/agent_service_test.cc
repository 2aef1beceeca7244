// Controller and agent over the real gRPC service on a unix socket; a shell script is the rank.
#include "controller/server/agent_service.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cstdlib>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/file.h"
#include "controller/backend/job_driver.h"
#include "controller/server/unix_listener.h"
#include "worker/agent/run_agent.h"

namespace am::controller {
namespace {

using testing::HasSubstr;

class AgentServiceTest : public testing::Test {
 protected:
  AgentServiceTest() {
    std::string folder = testing::TempDir() + "/am_service_XXXXXX";
    folder_ = mkdtemp(folder.data());
  }

  // Runs a job whose ranks do what the script says to its end.
  Job Run(const std::string& script, int world_size) {
    const char* source = getenv("AMCTL_SOURCE_DIR");
    SystemClock clock;
    Spawner spawner;
    EventLoop loop(clock);
    JobDriver* driver = nullptr;
    auto turn = [&] {
      driver->Turn();
      if (driver->finished()) loop.Stop();
    };
    AgentService service(loop, {.on_observation =
                                    [&](const Observation& seen) {
                                      if (driver->Observe(seen)) turn();
                                    },
                                .on_rank_event =
                                    [&](int64_t attempt, int rank, const std::string& json) {
                                      events_ += absl::StrCat(attempt, "/", rank, " ", json, "\n");
                                    }});
    JobDriver job({.id = "am-test", .rank_spec_json = "{}", .world_size = world_size}, service,
                  clock, [&](const Announce& news) { said_ += news.text + "\n"; });
    driver = &job;
    auto listener = UnixListener::Listen(
        loop, folder_ + "/s", [&](UniqueFd connection) { service.Adopt(std::move(connection)); });
    EXPECT_TRUE(listener.ok()) << listener.status();
    std::thread agent([&] {
      agent::RunAgent(
          "unix:" + folder_ + "/s", clock, spawner,
          {.state_dir = folder_,
           .rank_program = absl::StrCat(source == nullptr ? "." : source, "/tests/fakes/rank.sh"),
           .environment = {"PATH=/usr/bin:/bin", "FAKE_RANK=" + script}});
    });
    loop.Run();
    service.Close();
    agent.join();
    return job.job();
  }

  std::string folder_, events_, said_;
};

TEST_F(AgentServiceTest, SeesAJobToItsEnd) {
  Job job = Run("hello; await rendezvous; ready 0; step 1; finish completed 1", 2);
  EXPECT_EQ(job.status.phase, JobPhase::kSucceeded);
  EXPECT_THAT(events_, HasSubstr(R"(1/1 {"v":1,"type":"done")"));
}

TEST_F(AgentServiceTest, RestartsTheGroupWhenARankIsKilled) {
  Job job = Run("hello; ready 0; case $RANK/$ATTEMPT in 1/1) kill -9 $$;; 0/1) hang;; esac", 2);
  EXPECT_EQ(job.status.phase, JobPhase::kSucceeded);
  EXPECT_EQ(job.status.attempt, 2);
  EXPECT_THAT(said_, HasSubstr("rank 1 was killed by signal 9 (SIGKILL); restarting"));
}

TEST_F(AgentServiceTest, CarriesTheLastLinesOfALogAsBytes) {
  Job job = Run("printf '\\200\\n'; exit 2", 1);
  EXPECT_EQ(job.status.phase, JobPhase::kFailed);
  EXPECT_THAT(job.status.failure->last_lines, testing::ElementsAre("\x80"));
}

TEST(UnixListener, IsForItsOwnerAloneAndLeavesNothing) {
  std::string folder = testing::TempDir() + "/am_listen_XXXXXX";
  std::string path = std::string(mkdtemp(folder.data())) + "/s";
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

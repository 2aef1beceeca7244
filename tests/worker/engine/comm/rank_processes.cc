#include "tests/worker/engine/comm/rank_processes.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace am::engine {
namespace {

constexpr int kAlarmSeconds = 120;

int EnvInt(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? -1 : std::atoi(text);
}

[[noreturn]] void RunAsRank(const std::function<void(const RendezvousOptions&)>& body) {
  alarm(kAlarmSeconds);
  RendezvousOptions options;
  options.rank = EnvInt("AMCTL_TEST_RANK");
  options.world_size = EnvInt("AMCTL_TEST_WORLD_SIZE");
  options.port = EnvInt("AMCTL_TEST_PORT");
  options.listen_fd = EnvInt("AMCTL_TEST_LISTEN_FD");
  options.prefix = "test/1";
  try {
    body(options);
  } catch (const std::exception& error) {
    ADD_FAILURE() << "rank " << options.rank << ": " << error.what();
  }
  fflush(nullptr);
  _exit(testing::Test::HasFailure() ? 1 : 0);
}

int Listen(int* port) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(fd, 64) != 0 || getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    return -1;
  }
  *port = ntohs(address.sin_port);
  return fd;
}

}  // namespace

void RunRanks(int world_size, const std::function<void(const RendezvousOptions&)>& body,
              const std::vector<int>& killed) {
  if (std::getenv("AMCTL_TEST_RANK") != nullptr) RunAsRank(body);

  int port = 0;
  const int listen_fd = Listen(&port);
  ASSERT_GE(listen_fd, 0);
  const auto* info = testing::UnitTest::GetInstance()->current_test_info();
  std::string filter =
      std::string("--gtest_filter=") + info->test_suite_name() + "." + info->name();
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  std::vector<pid_t> children;
  for (int rank = 0; rank < world_size; ++rank) {
    std::vector<std::string> environment = {
        "AMCTL_TEST_RANK=" + std::to_string(rank),
        "AMCTL_TEST_WORLD_SIZE=" + std::to_string(world_size),
        "AMCTL_TEST_PORT=" + std::to_string(port),
        "AMCTL_TEST_LISTEN_FD=" + std::to_string(rank == 0 ? listen_fd : -1),
        "OMP_NUM_THREADS=1",
    };
    std::vector<char*> envp;
    for (std::string& entry : environment) envp.push_back(entry.data());
    for (char** entry = environ; *entry != nullptr; ++entry) envp.push_back(*entry);
    envp.push_back(nullptr);
    std::string program = self;
    char* argv[] = {program.data(), filter.data(), nullptr};
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (rank != 0) close(listen_fd);
      execve(program.c_str(), argv, envp.data());
      _exit(127);
    }
    children.push_back(child);
  }
  close(listen_fd);
  for (int rank = 0; rank < world_size; ++rank) {
    int status = 0;
    ASSERT_EQ(waitpid(children[rank], &status, 0), children[rank]);
    if (std::find(killed.begin(), killed.end(), rank) != killed.end()) {
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
          << "rank " << rank << " was to be killed; wait status " << status;
    } else {
      EXPECT_EQ(status, 0) << "rank " << rank << " failed";
    }
  }
}

}  // namespace am::engine

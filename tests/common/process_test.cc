#include "common/process.h"

#include <gmock/gmock.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "common/file.h"

namespace am {
namespace {

using testing::HasSubstr;

ExitState WaitFor(const Child& child) {
  pollfd ready{.fd = child.pidfd.get(), .events = POLLIN, .revents = 0};
  while (poll(&ready, 1, -1) < 0) {
  }
  return Reap(child).value();
}

SpawnRequest Shell(const std::string& script) {
  return {.program = "/bin/sh", .args = {"-c", script}, .env = {"PATH=/usr/bin:/bin"}, .fds = {}};
}

// What a script writes to its standard output.
std::string OutputOf(Spawner& spawner, SpawnRequest request) {
  auto pipe = MakePipe();
  request.fds.emplace_back(pipe->write.get(), 1);
  auto child = spawner.Spawn(request);
  if (!child.ok()) return std::string(child.status().message());
  pipe->write.reset();
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(pipe->read.get(), buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(n));
  }
  WaitFor(*child);
  return text;
}

TEST(Spawner, TellsHowAProcessEnded) {
  Spawner spawner;
  auto exits = spawner.Spawn(Shell("exit 3"));
  ASSERT_TRUE(exits.ok());
  EXPECT_EQ(WaitFor(*exits).code, 3);
  auto killed = spawner.Spawn(Shell("kill -9 $$"));
  ASSERT_TRUE(killed.ok());
  ExitState state = WaitFor(*killed);
  EXPECT_EQ(state.signal, SIGKILL);
  EXPECT_EQ(SignalName(state.signal), "SIGKILL");
}

TEST(Spawner, NamesTheProgramThatCannotBeExecuted) {
  Spawner spawner;
  auto child = spawner.Spawn({.program = "/nonexistent/program", .args = {}, .env = {}, .fds = {}});
  ASSERT_FALSE(child.ok());
  EXPECT_THAT(std::string(child.status().message()),
              HasSubstr("cannot execute /nonexistent/program: No such file or directory"));
}

TEST(Spawner, GivesTheChildASessionAndNoDescriptorsButItsOwn) {
  Spawner spawner;
  UniqueFd other(dup(0));  // not close-on-exec, as a library might have it
  SpawnRequest request = Shell("ls /proc/self/fd | wc -l; ps -o sid= -p $$ | tr -d ' '; echo $$");
  std::string text = OutputOf(spawner, std::move(request));
  // 0, 1, 2 and the folder that ls reads.
  EXPECT_EQ(text.substr(0, 2), "4\n") << text;
  std::string rest = text.substr(2);
  size_t end = rest.find('\n');
  EXPECT_EQ(rest.substr(0, end), rest.substr(end + 1, rest.size() - end - 2)) << "session leader";
}

TEST(Spawner, PutsDescriptorsInPlaceThoughTheirNumbersCross) {
  Spawner spawner;
  auto a = MakePipe(), b = MakePipe();
  ASSERT_TRUE(WriteAll(a->write.get(), "a\n").ok());
  ASSERT_TRUE(WriteAll(b->write.get(), "b\n").ok());
  SpawnRequest request = Shell("read x <&" + std::to_string(b->read.get()) + "; read y <&" +
                               std::to_string(a->read.get()) + "; echo $x$y");
  if (a->read.get() > 9 || b->read.get() > 9) GTEST_SKIP() << "the shell takes one digit";
  request.fds = {{a->read.get(), b->read.get()}, {b->read.get(), a->read.get()}};
  EXPECT_EQ(OutputOf(spawner, std::move(request)), "ab\n");
}

TEST(Spawner, StartsChildrenWithDefaultSignalsWhateverOursAre) {
  signal(SIGPIPE, SIG_IGN);
  sigset_t blocked, before;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  Spawner spawner;
  EXPECT_EQ(
      OutputOf(spawner, Shell("grep -E 'Sig(Blk|Ign)' /proc/self/status | cut -f2 | sort -u")),
      "0000000000000000\n");
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(Spawner, FindsWhatAChildLeftBehindInASessionOfItsOwn) {
  Spawner spawner;
  auto pipe = MakePipe();
  SpawnRequest request = Shell("setsid sh -c 'echo $$; read x' <&3 & exit 0");
  auto hold = MakePipe();
  request.fds = {{pipe->write.get(), 1}, {hold->read.get(), 3}};
  auto child = spawner.Spawn(request);
  ASSERT_TRUE(child.ok());
  EXPECT_EQ(WaitFor(*child).code, 0);
  char text[32] = "";
  ASSERT_GT(read(pipe->read.get(), text, sizeof text - 1), 0);
  pid_t stray = atoi(text);
  EXPECT_THAT(spawner.Strays({}), testing::Contains(stray));
  kill(stray, SIGKILL);
  siginfo_t info;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(stray), &info, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(Reap(stray).has_value());
  EXPECT_THAT(spawner.Strays({}), testing::Not(testing::Contains(stray)));
}

// A whole supervisor is a process of its own here: it spawns a child that tells its pid and blocks,
// and is killed with -9.
TEST(Spawner, NoChildOutlivesASupervisorThatIsKilled) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  auto pipe = MakePipe();
  auto hold = MakePipe();
  pid_t supervisor = fork();
  if (supervisor == 0) {
    Spawner spawner;
    SpawnRequest request = Shell("echo $$; read x <&3");
    request.fds = {{pipe->write.get(), 1}, {hold->read.get(), 3}};
    auto child = spawner.Spawn(request);
    for (;;) pause();
  }
  char text[32] = "";
  ASSERT_GT(read(pipe->read.get(), text, sizeof text - 1), 0);
  pid_t child = atoi(text);
  kill(supervisor, SIGKILL);
  ASSERT_EQ(waitpid(supervisor, nullptr, 0), supervisor);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child) << "it is ours now, and dead";
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

TEST(Spawner, ManyThreadsMaySpawn) {
  Spawner spawner;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      auto child = spawner.Spawn(Shell("exit " + std::to_string(i)));
      ASSERT_TRUE(child.ok());
      EXPECT_EQ(WaitFor(*child).code, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace am

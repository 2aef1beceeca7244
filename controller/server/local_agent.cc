#include "controller/server/local_agent.h"

#include <fcntl.h>
#include <linux/limits.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/file.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "controller/server/state_lock.h"

namespace am::controller {
namespace {

constexpr int kLockFd = 3;  // of the agent, which only holds it

}  // namespace

LocalAgent::LocalAgent(EventLoop& loop, Options options)
    : loop_(loop), options_(std::move(options)) {}

absl::Status LocalAgent::Start() {
  AM_RETURN_IF_ERROR(StartIfGone());
  LookAfterIt();
  return absl::OkStatus();
}

void LocalAgent::LookAfterIt() {
  loop_.RunAt(loop_.clock().Now() + delay_, [this] {
    if (absl::Status status = StartIfGone(); !status.ok()) {
      LogError(absl::StrCat("no agent on this host: ", status.message()));
    }
    LookAfterIt();
  });
}

absl::Status LocalAgent::StartIfGone() {
  if (pid_ > 0 && waitpid(pid_, nullptr, WNOHANG) == pid_) {
    LogError(absl::StrCat("the agent of this host (process ", pid_, ") has ended; see ",
                          options_.state_dir, "/agent.log"));
    pid_ = -1;
  }
  AM_ASSIGN_OR_RETURN(std::optional<UniqueFd> lock, TryLock(options_.state_dir + "/agent.lock"));
  TimePoint now = loop_.clock().Now();
  if (!lock) {
    if (now - started_ > kLongestDelay) delay_ = kFirstDelay;
    return absl::OkStatus();
  }
  // One that ends at once is started again less and less often.
  if (started_ != TimePoint()) delay_ = std::min(delay_ * 2, Duration(kLongestDelay));
  started_ = now;
  return Spawn(*lock);
}

absl::Status LocalAgent::Spawn(const UniqueFd& lock) {
  std::string log = options_.state_dir + "/agent.log";
  std::vector<char*> argv = {options_.program.data()};
  for (std::string& argument : options_.arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  posix_spawn_file_actions_adddup2(&files, lock.get(), kLockFd);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  int error =
      posix_spawn(&pid_, options_.program.c_str(), &files, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  if (error == 0) return absl::OkStatus();
  pid_ = -1;
  return ErrnoStatus(error, "cannot start " + options_.program);
}

absl::StatusOr<std::string> FindWorkerProgram() {
  if (std::string named = Getenv("AMCTL_WORKER_PROGRAM"); !named.empty()) return named;
  char self[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", self, sizeof self);
  if (length <= 0) return ErrnoStatus(errno, "cannot read /proc/self/exe");
  std::string path(self, static_cast<size_t>(length));
  path = path.substr(0, path.rfind('/')) + "/am-worker";
  if (access(path.c_str(), X_OK) == 0) return path;
  return ErrnoStatus(errno, absl::StrCat("no am-worker at ", path,
                                         "; AMCTL_WORKER_PROGRAM names another place, --no-agent "
                                         "does without"));
}

}  // namespace am::controller

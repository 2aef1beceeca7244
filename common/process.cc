#include "common/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/file.h"

namespace am {
namespace {

// Sources are moved above every target first, so that putting one in place never overwrites
// another.
constexpr int kFirstSourceFd = 512;

// All that the child needs, made before the fork: nothing is allocated after it.
struct Prepared {
  const char* program;
  std::vector<char*> argv;
  std::vector<char*> envp;
  std::vector<std::pair<int, int>> fds;
  int last_target = 2;
  int error_fd = -1;
  pid_t parent = -1;
};

#if defined(__SANITIZE_THREAD__)
#define AM_NO_SANITIZE __attribute__((no_sanitize("thread")))
#else
#define AM_NO_SANITIZE
#endif

[[noreturn]] AM_NO_SANITIZE void FailChild(int error_fd) {
  int error = errno;
  [[maybe_unused]] long ignored = syscall(SYS_write, error_fd, &error, sizeof error);
  _exit(127);
}

// Runs in the forked child, where only async-signal-safe calls are allowed.
[[noreturn]] AM_NO_SANITIZE void RunChild(const Prepared& prepared) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) FailChild(prepared.error_fd);
  if (getppid() != prepared.parent) _exit(127);  // it died before the signal was armed
  setsid();
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const auto& [source, target] : prepared.fds) {
    if (syscall(SYS_dup3, source, target, 0) < 0) FailChild(prepared.error_fd);
  }
  // The error descriptor is close-on-exec itself; all others above the targets become so.
  syscall(SYS_close_range, prepared.last_target + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  execve(prepared.program, prepared.argv.data(), prepared.envp.data());
  FailChild(prepared.error_fd);
}

std::vector<char*> Pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

absl::StatusOr<Child> Fork(const SpawnRequest& request) {
  auto failed = [&](const char* what) {
    return ErrnoStatus(errno, absl::StrCat(what, " ", request.program).c_str());
  };
  auto pipe = MakePipe();
  if (!pipe.ok()) return pipe.status();
  // Sources are moved above every target first, so that putting one in place never overwrites
  // another.
  int last_target = 2;
  for (const auto& [ours, target] : request.fds) last_target = std::max(last_target, target);
  UniqueFd error_fd(fcntl(pipe->write.get(), F_DUPFD_CLOEXEC, last_target + 1));
  if (!error_fd.valid()) return failed("cannot start");
  pipe->write.reset();

  std::vector<std::string> words = {request.program};
  words.insert(words.end(), request.args.begin(), request.args.end());
  Prepared prepared{.program = request.program.c_str(),
                    .argv = Pointers(words),
                    .envp = Pointers(request.env),
                    .fds = {},
                    .last_target = last_target,
                    .error_fd = error_fd.get(),
                    .parent = getpid()};
  std::vector<UniqueFd> sources;
  for (const auto& [ours, target] : request.fds) {
    sources.emplace_back(fcntl(ours, F_DUPFD_CLOEXEC, last_target + 1));
    if (!sources.back().valid()) return failed("cannot hand a descriptor to");
    prepared.fds.emplace_back(sources.back().get(), target);
  }

  pid_t pid =
      _Fork();  // without the fork handlers of libraries, which are for children that go on running
  if (pid < 0) return failed("cannot fork for");
  if (pid == 0) RunChild(prepared);

  error_fd.reset();
  int error = 0;
  ssize_t n;
  do {
    n = read(pipe->read.get(), &error, sizeof error);
  } while (n < 0 && errno == EINTR);
  if (n == static_cast<ssize_t>(sizeof error)) {
    waitpid(pid, nullptr, 0);
    errno = error;
    return failed("cannot execute");
  }
  Child child{.pid = pid, .pidfd = UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)))};
  if (!child.pidfd.valid()) {
    auto status = failed("cannot watch");
    kill(-pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return status;
  }
  return child;
}

// The children of this process, from /proc: the kernel's own list needs an option that not every
// kernel has.
std::set<pid_t> ChildrenOfThisProcess() {
  std::set<pid_t> children;
  DIR* proc = opendir("/proc");
  if (proc == nullptr) return children;
  pid_t self = getpid();
  while (dirent* entry = readdir(proc)) {
    char* end = nullptr;
    long pid = std::strtol(entry->d_name, &end, 10);
    if (pid <= 0 || *end != '\0') continue;
    auto stat = ReadFile(absl::StrCat("/proc/", pid, "/stat"));
    if (!stat.ok()) continue;
    // "pid (any name, parentheses included) state ppid …"
    size_t name_end = stat->rfind(')');
    int parent = 0;
    if (name_end == std::string::npos ||
        std::sscanf(stat->c_str() + name_end + 1, " %*c %d", &parent) != 1) {
      continue;
    }
    if (parent == self) children.insert(static_cast<pid_t>(pid));
  }
  closedir(proc);
  return children;
}

std::optional<ExitState> ReapId(idtype_t type, id_t id) {
  siginfo_t info = {};
  if (waitid(type, id, &info, WEXITED | WNOHANG) != 0 || info.si_pid == 0) return std::nullopt;
  if (info.si_code == CLD_EXITED) return ExitState{.code = info.si_status};
  return ExitState{.signal = info.si_status, .core_dumped = info.si_code == CLD_DUMPED};
}

}  // namespace

struct Spawner::Order {
  const SpawnRequest* request;
  std::optional<absl::StatusOr<Child>> result;
};

Spawner::Spawner() : inherited_(ChildrenOfThisProcess()) {
  signal(SIGCHLD,
         SIG_DFL);  // ignored, the kernel would reap for us and the exit states would be lost
  AM_CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  thread_ = std::thread([this] { Serve(); });
}

Spawner::~Spawner() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

absl::StatusOr<Child> Spawner::Spawn(const SpawnRequest& request) {
  Order order{&request, std::nullopt};
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return order_ == nullptr; });
  order_ = &order;
  changed_.notify_all();
  changed_.wait(lock, [&] { return order.result.has_value(); });
  return std::move(*order.result);
}

void Spawner::Serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return closing_ || order_ != nullptr; });
    if (order_ == nullptr) return;
    Order* order = order_;
    lock.unlock();
    absl::StatusOr<Child> child = Fork(*order->request);
    lock.lock();
    order->result = std::move(child);
    order_ = nullptr;
    changed_.notify_all();
  }
}

std::vector<pid_t> Spawner::Strays(const std::set<pid_t>& own) const {
  std::vector<pid_t> strays;
  for (pid_t pid : ChildrenOfThisProcess()) {
    if (!own.contains(pid) && !inherited_.contains(pid)) strays.push_back(pid);
  }
  return strays;
}

std::optional<ExitState> Reap(const Child& child) {
  return ReapId(P_PIDFD, static_cast<id_t>(child.pidfd.get()));
}

std::optional<ExitState> Reap(pid_t pid) { return ReapId(P_PID, static_cast<id_t>(pid)); }

void KillGroup(const Child& child, int signal) {
  // Through the pidfd the process itself, never a stranger with its number; the group while the
  // leader is not reaped.
  syscall(SYS_pidfd_send_signal, child.pidfd.get(), signal, nullptr, 0);
  kill(-child.pid, signal);
}

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? absl::StrCat("signal ", signal) : absl::StrCat("SIG", name);
}

}  // namespace am

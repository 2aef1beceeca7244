#include "worker/engine/rank_link.h"

#include <execinfo.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "common/error.h"
#include "common/exit_status.h"

namespace am::engine {
namespace {

volatile std::sig_atomic_t g_leave_signal = 0;
void OnLeaveSignal(int) { g_leave_signal = 1; }

// Writes the stack of the thread that it interrupts; backtrace() was called once before, so it
// allocates nothing here.
void OnDumpSignal(int) {
  void* frames[64];
  const int count = backtrace(frames, 64);
  backtrace_symbols_fd(frames, count, STDERR_FILENO);
}

int FdFromEnvironment(const char* name) {
  const char* text = std::getenv(name);
  if (!text) return -1;
  char* end = nullptr;
  const long fd = std::strtol(text, &end, 10);
  if (*text == 0 || *end != 0 || fd < 0 || fcntl(static_cast<int>(fd), F_GETFD) < 0)
    throw UserError(std::string(name) + ": '" + text + "' is no open descriptor");
  fcntl(static_cast<int>(fd), F_SETFD, FD_CLOEXEC);
  return static_cast<int>(fd);
}

int IntFromEnvironment(const char* name, int fallback) {
  const char* text = std::getenv(name);
  if (!text) return fallback;
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (*text == 0 || *end != 0 || value < 0 || value > 1'000'000)
    throw UserError(std::string(name) + ": '" + text + "' is no rank or size");
  return static_cast<int>(value);
}

int64_t Now(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

}  // namespace

RankIdentity RankIdentity::FromEnvironment() {
  RankIdentity identity;
  identity.rank = IntFromEnvironment("RANK", 0);
  identity.local_rank = IntFromEnvironment("LOCAL_RANK", identity.rank);
  identity.world_size = IntFromEnvironment("WORLD_SIZE", 1);
  if (identity.world_size < 1 || identity.rank >= identity.world_size)
    throw UserError("RANK " + std::to_string(identity.rank) + " is not below WORLD_SIZE " +
                    std::to_string(identity.world_size));
  return identity;
}

RankLink::RankLink(const RankIdentity& identity, int64_t attempt)
    : identity_(identity), attempt_(attempt) {
  event_fd_ = FdFromEnvironment(kEventFdEnv);
  control_fd_ = FdFromEnvironment(kControlFdEnv);
  lifeline_fd_ = FdFromEnvironment(kLifelineFdEnv);
  wake_fd_ = eventfd(0, EFD_CLOEXEC);
  void* frames[1];
  backtrace(frames, 1);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a file size limit is a failed write, with its message
  std::signal(SIGTERM, OnLeaveSignal);
  std::signal(SIGUSR1, OnLeaveSignal);
  std::signal(SIGUSR2, OnDumpSignal);
  if (event_fd_ >= 0)
    std::signal(SIGINT, SIG_IGN);  // Ctrl-C is the supervisor's to handle
  else
    std::signal(SIGINT, OnLeaveSignal);
  thread_ = std::thread([this] { Watch(); });
}

RankLink::~RankLink() {
  stopping_ = true;
  const uint64_t one = 1;
  if (write(wake_fd_, &one, sizeof one) < 0) std::perror("am-rank: waking the watcher");
  thread_.join();
  close(wake_fd_);
}

void RankLink::Send(RankEventType type, nlohmann::json fields) {
  const std::lock_guard lock(mutex_);
  RankEvent event;
  event.type = type;
  event.seq = ++seq_;
  event.attempt = attempt_;
  event.rank = identity_.rank;
  event.t_unix_ns = Now(CLOCK_REALTIME);
  event.t_mono_ns = Now(CLOCK_MONOTONIC);
  event.fields = std::move(fields);
  if (event_fd_ < 0) {
    const std::string line = LogLine(event);
    if (!line.empty() && identity_.rank == 0) {
      std::printf("%s\n", line.c_str());
      std::fflush(stdout);
    }
    if (type == RankEventType::kFailed || (type == RankEventType::kWarning && identity_.rank == 0))
      std::fprintf(stderr, "am-rank: %s\n", event.fields.value("message", std::string()).c_str());
    return;
  }
  const std::string line = ToLine(event);
  for (size_t done = 0; done < line.size();) {
    const ssize_t n = write(event_fd_, line.data() + done, line.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return;  // the reader is gone; the lifeline ends this process
    done += static_cast<size_t>(n);
  }
}

void RankLink::Warn(const std::string& message) {
  if (identity_.rank == 0) Send(RankEventType::kWarning, {{"message", message}});
}

void RankLink::SetActivity(const std::string& activity, int64_t step) {
  const std::lock_guard lock(mutex_);
  activity_ = activity;
  step_ = step;
}

RankLink::Meeting RankLink::WaitForRendezvous(int64_t timeout_ms) {
  Meeting meeting;
  std::string address;
  if (control_fd_ >= 0) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms),
                           [&] { return rendezvous_.has_value(); }))
      throw PeerLostError("no meeting point was named within " + std::to_string(timeout_ms / 1000) +
                          " s");
    address = rendezvous_->address;
    meeting.prefix = rendezvous_->prefix;
  } else {
    const char* host = std::getenv("MASTER_ADDR");
    const char* port = std::getenv("MASTER_PORT");
    if (!host || !port)
      throw UserError("MASTER_ADDR and MASTER_PORT are needed when am-rank is started by hand");
    address = std::string(host) + ":" + port;
    meeting.prefix = "by-hand";
  }
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos)
    throw InternalError("rendezvous address '" + address + "' has no port");
  meeting.host = address.substr(0, colon);
  if (meeting.host.starts_with('[')) meeting.host = meeting.host.substr(1, meeting.host.size() - 2);
  meeting.port = std::atoi(address.c_str() + colon + 1);
  if (identity_.rank == 0) meeting.listen_fd = FdFromEnvironment(kStoreFdEnv);
  return meeting;
}

bool RankLink::leave_requested() const { return leave_ || g_leave_signal; }
bool RankLink::TakeSaveRequest() { return save_.exchange(false); }

void RankLink::Handle(const ControlMessage& message) {
  switch (message.type) {
    case ControlType::kRendezvous: {
      const std::lock_guard lock(mutex_);
      rendezvous_ = message;
      changed_.notify_all();
      break;
    }
    case ControlType::kSave:
      save_ = true;
      break;
    case ControlType::kLeave:
      leave_ = true;
      break;
    case ControlType::kDumpStacks:
      kill(getpid(), SIGUSR2);
      break;
  }
}

void RankLink::Watch() {
  // Signals belong to the main thread: it is the one whose stack is asked for.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::string buffer;
  while (!stopping_) {
    pollfd fds[] = {{wake_fd_, POLLIN, 0}, {lifeline_fd_, POLLIN, 0}, {control_fd_, POLLIN, 0}};
    const int ready = poll(fds, 3, 1000);
    if (ready == 0 && event_fd_ >= 0) {
      nlohmann::json fields;
      {
        const std::lock_guard lock(mutex_);
        fields = {{"activity", activity_}, {"step", step_}};
      }
      Send(RankEventType::kHeartbeat, std::move(fields));
    }
    if (fds[1].revents != 0) _exit(kRankExitPeerLost);  // the supervisor is gone
    if (fds[2].revents == 0) continue;
    char chunk[4096];
    const ssize_t n = read(control_fd_, chunk, sizeof chunk);
    if (n <= 0) {
      control_fd_ = -1;
      continue;
    }
    buffer.append(chunk, static_cast<size_t>(n));
    for (size_t end; (end = buffer.find('\n')) != std::string::npos; buffer.erase(0, end + 1))
      if (const auto message = ParseControlMessage(std::string_view(buffer).substr(0, end)))
        Handle(*message);
  }
}

}  // namespace am::engine

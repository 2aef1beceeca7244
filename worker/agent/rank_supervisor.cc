#include "worker/agent/rank_supervisor.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/file.h"
#include "common/log.h"
#include "common/status_macros.h"

namespace am::agent {
namespace {

constexpr size_t kMaxEventBytes = 1 << 20;
// What is read of a rank after its end: a child that it left behind may go on writing for ever.
constexpr int kMaxReadsAfterExit = 256;

// The rank's own descriptors, after the standard three.
constexpr int kEventFd = 3;
constexpr int kControlFd = 4;
constexpr int kLifelineFd = 5;
constexpr int kStoreFd = 6;

}  // namespace

RankSupervisor::RankSupervisor(EventLoop& loop, RankProcess process, Callbacks callbacks)
    : loop_(loop),
      process_(std::move(process)),
      callbacks_(std::move(callbacks)),
      log_(process_.log_path),
      event_lines_(kMaxEventBytes, [this](std::string_view line, size_t cut_bytes) {
        OnEventLine(line, cut_bytes);
      }) {
  output_.on_bytes = [this](std::string_view bytes) { log_.Append(bytes); };
  events_.on_bytes = [this](std::string_view bytes) { event_lines_.Feed(bytes); };
}

RankSupervisor::~RankSupervisor() {
  AM_CHECK(!running_);
  Close(output_);
  Close(events_);
}

absl::Status RankSupervisor::Start(Spawner& spawner) {
  AM_RETURN_IF_ERROR(log_.Open());
  AM_ASSIGN_OR_RETURN(Pipe output, MakePipe());
  AM_ASSIGN_OR_RETURN(Pipe events, MakePipe());
  AM_ASSIGN_OR_RETURN(Pipe control, MakePipe());
  UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null.valid()) return ErrnoStatus(errno, "cannot open /dev/null");

  SpawnRequest request{.program = process_.program,
                       .args = {process_.spec_path},
                       .env = process_.environment,
                       .fds = {{null.get(), 0},
                               {output.write.get(), 1},
                               {output.write.get(), 2},
                               {events.write.get(), kEventFd},
                               {control.read.get(), kControlFd},
                               {process_.lifeline_fd, kLifelineFd}}};
  auto set = [&](const char* name, int value) {
    request.env.push_back(absl::StrCat(name, "=", value));
  };
  set("RANK", process_.rank);
  set("LOCAL_RANK", process_.local_rank);
  set("WORLD_SIZE", process_.world_size);
  set(kEventFdEnv, kEventFd);
  set(kControlFdEnv, kControlFd);
  set(kLifelineFdEnv, kLifelineFd);
  if (process_.store_fd >= 0) {
    request.fds.emplace_back(process_.store_fd, kStoreFd);
    set(kStoreFdEnv, kStoreFd);
  }
  AM_ASSIGN_OR_RETURN(child_, spawner.Spawn(request));
  running_ = true;
  control_ = std::move(control.write);
  // A rank that does not read its control messages must not stop the agent.
  AM_CHECK(SetNonBlocking(control_.get()).ok());
  Open(output_, std::move(output.read));
  Open(events_, std::move(events.read));
  exit_watch_ = loop_.Watch(child_.pidfd.get(), EPOLLIN, [this](uint32_t) { OnExit(); });
  return absl::OkStatus();
}

void RankSupervisor::Send(const ControlMessage& message) {
  if (!running_) return;
  std::string line = ToLine(message);
  if (write(control_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    LogWarning(absl::StrCat("rank ", rank(), " does not read its control messages"));
  }
}

void RankSupervisor::Kill(std::string because) {
  if (!running_) return;
  if (killed_because_.empty()) killed_because_ = std::move(because);
  KillGroup(child_, SIGKILL);
}

void RankSupervisor::Open(Stream& stream, UniqueFd fd) {
  AM_CHECK(SetNonBlocking(fd.get()).ok());
  stream.fd = std::move(fd);
  stream.watch =
      loop_.Watch(stream.fd.get(), EPOLLIN, [this, &stream](uint32_t) { ReadOnce(stream); });
}

bool RankSupervisor::ReadOnce(Stream& stream) {
  if (!stream.fd.valid()) return false;
  char buffer[1 << 16];
  ssize_t n = read(stream.fd.get(), buffer, sizeof buffer);
  if (n > 0) {
    stream.on_bytes({buffer, static_cast<size_t>(n)});
    return true;
  }
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  Close(stream);
  return false;
}

void RankSupervisor::Close(Stream& stream) {
  if (!stream.fd.valid()) return;
  loop_.Unwatch(stream.watch);
  stream.fd.reset();
}

void RankSupervisor::OnEventLine(std::string_view line, size_t cut_bytes) {
  std::optional<RankEvent> event = ParseRankEvent(line);
  if (cut_bytes > 0 || !event) {
    if (!std::exchange(warned_of_events_, true)) {
      LogWarning(absl::StrCat("rank ", rank(), " wrote a line of ", line.size() + cut_bytes,
                              " bytes that is no event of this version; such lines are dropped"));
    }
    return;
  }
  callbacks_.on_event(*event, line);
}

void RankSupervisor::OnExit() {
  // The group before the leader is reaped: until then the number belongs to nobody else.
  KillGroup(child_, SIGKILL);
  for (int reads = 0; reads < kMaxReadsAfterExit && ReadOnce(events_); ++reads) {
  }
  event_lines_.Finish();
  for (int reads = 0; reads < kMaxReadsAfterExit && ReadOnce(output_); ++reads) {
  }
  log_.Finish();
  std::optional<ExitState> exit = Reap(child_);
  AM_CHECK(exit.has_value());
  loop_.Unwatch(exit_watch_);
  running_ = false;
  control_.reset();
  Close(events_);
  Close(output_);
  callbacks_.on_exited(*exit);
}

}  // namespace am::agent

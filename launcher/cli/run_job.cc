#include "launcher/cli/run_job.h"

#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/check.h"
#include "common/event_loop.h"
#include "common/exit_status.h"
#include "common/file.h"
#include "common/random.h"
#include "common/status_macros.h"
#include "controller/backend/job_driver.h"
#include "controller/job/root_cause.h"
#include "controller/server/agent_service.h"
#include "controller/server/grpc_address.h"
#include "controller/server/job_view.h"
#include "controller/server/unix_listener.h"
#include "worker/agent/run_agent.h"
#include "worker/rank_io/rank_event.h"

namespace am::cli {
namespace {

using controller::Announce;
using controller::JobPhase;
using controller::StopRequest;

constexpr Duration kShortGrace = std::chrono::seconds(5);
constexpr size_t kShownLines = 20;  // of the failed rank's log
constexpr size_t kMaxSocketPath = 107;

// A folder of ours alone for the socket, gone as soon as the agent is connected.
class SocketFolder {
 public:
  static absl::StatusOr<SocketFolder> Make(const RunJobOptions& options) {
    std::string name = absl::StrCat("run-", RandomBase32(10));
    absl::Status problem = absl::OkStatus();
    std::vector<std::string> parents;
    if (!options.runtime_dir.empty()) parents.push_back(options.runtime_dir + "/amctl");
    parents.push_back(options.temporary_dir);
    for (const std::string& parent : parents) {
      std::string path =
          absl::StrCat(parent, parent == options.temporary_dir ? "/amctl-" : "/", name);
      if (path.size() + sizeof "/s" > kMaxSocketPath) {
        problem = absl::InvalidArgumentError(absl::StrCat(
            path, " is too long for a socket, which may have ", kMaxSocketPath, " bytes"));
        continue;
      }
      problem = MakeDirectories(path, 0700);
      if (problem.ok()) return SocketFolder(path);
    }
    return absl::Status(problem.code(),
                        absl::StrCat("no folder for the controller's socket: ", problem.message(),
                                     "; set XDG_RUNTIME_DIR or TMPDIR to one that can be written"));
  }
  SocketFolder(SocketFolder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  ~SocketFolder() { Remove(); }

  std::string socket_path() const { return path_ + "/s"; }
  void Remove() {
    if (!path_.empty()) rmdir(std::exchange(path_, "").c_str());
  }

 private:
  explicit SocketFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// The controller of one job: wires the loop, the driver, the service and the streams.
class JobRun {
 public:
  JobRun(controller::JobSpec spec, const RunJobOptions& options, StopSignals& signals,
         Progress progress, ProgressOutput& output)
      : options_(options),
        progress_(std::move(progress)),
        output_(output),
        loop_(clock_),
        service_(loop_, controller::AgentService::Nodes::kOneNameless,
                 {.on_hello = [this](const controller::NodeHello&) { Place(); },
                  .on_heard = [](const std::string&) {},
                  .on_closed =
                      [this](const std::string&, const std::string& reason) {
                        Observe(controller::AgentLost{.message = reason});
                      },
                  .on_observation = [this](const std::string&,
                                           const controller::Observation& seen) { Observe(seen); },
                  .on_rank_event =
                      [this](const std::string&, int64_t attempt, int rank,
                             const std::string& json) { OnRankEvent(attempt, rank, json); }}),
        driver_(std::move(spec), service_, clock_,
                [this](const Announce& news) { output_.Message("amctl: " + news.text); }) {
    loop_.Watch(signals.fd(), EPOLLIN, [this, &signals](uint32_t) { OnSignal(signals.fd()); });
  }

  int Run() {
    absl::StatusOr<SocketFolder> folder = SocketFolder::Make(options_);
    if (!folder.ok()) return Refuse(folder.status());
    // One connection: once the agent has dialled in, nothing of the socket is left to be cleaned
    // up, whatever ends us.
    std::unique_ptr<controller::UnixListener> listener;
    auto adopt = [&](UniqueFd connection) {
      service_.Adopt(std::move(connection));
      listener->Unlink();
      folder->Remove();
    };
    absl::StatusOr<std::unique_ptr<controller::UnixListener>> listening =
        controller::UnixListener::Listen(loop_, folder->socket_path(), adopt);
    if (!listening.ok()) return Refuse(listening.status());
    listener = std::move(*listening);
    std::thread agent([&, address = controller::UnixAddress(folder->socket_path())] {
      std::string reason = agent::RunAgent(address, clock_, spawner_,
                                           {.state_dir = options_.state_dir,
                                            .rank_program = options_.rank_program,
                                            .environment = options_.environment,
                                            .cores = options_.cores});
      // Before we closed its stream: it never came to a connection.
      loop_.Post([this, reason] {
        Place();
        Observe(controller::AgentLost{.message = reason});
      });
    });
    loop_.Run();
    service_.Close();  // the agent ends when its stream does
    agent.join();
    return Conclude();
  }

 private:
  int Refuse(const absl::Status& status) {
    output_.Message(absl::StrCat("amctl: ", status.message()));
    return kExitUsage;
  }

  // One agent, this process's own: its node has no name and is all there is to be placed on.
  void Place() {
    if (driver_.job().status.phase != JobPhase::kPending) return;
    std::vector<int> slots(static_cast<size_t>(driver_.job().spec.world_size));
    std::iota(slots.begin(), slots.end(), 0);
    driver_.Place({{.node = "", .slots = std::move(slots)}});
    Turn();
  }

  void Observe(const controller::Observation& seen) {
    if (driver_.Observe(seen)) Turn();
  }

  void Turn() {
    std::optional<TimePoint> wake_at = driver_.Turn();
    if (wake_timer_) loop_.Cancel(*wake_timer_);
    wake_timer_.reset();
    if (wake_at) wake_timer_ = loop_.RunAt(*wake_at, [this] { Turn(); });
    if (driver_.finished()) loop_.Stop();
  }

  void OnSignal(int fd) {
    signalfd_siginfo info;
    if (read(fd, &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return;
    int signal = static_cast<int>(info.ssi_signo);
    Duration grace = driver_.job().spec.restart.grace;
    TimePoint now = clock_.Now();
    if (++signals_seen_ == 1) interrupted_ = signal == SIGINT;
    TimePoint leave_by = LeaveBy(signals_seen_, now, grace);
    if (signals_seen_ <= 3) {
      output_.Message(absl::StrCat(
          "amctl: ", SignalName(signal),
          leave_by > now
              ? absl::StrCat(": saving at the next step and leaving, within ",
                             std::chrono::ceil<std::chrono::seconds>(leave_by - now).count(),
                             " s (once more to hurry)")
              : std::string(": leaving now, without saving")));
    }
    driver_.RequestStop(
        {.kind = StopRequest::Kind::kSuspend, .leave_by = leave_by, .because = SignalName(signal)});
    Turn();
  }

  void OnRankEvent(int64_t attempt, int rank, const std::string& json) {
    if (attempt != driver_.observed().attempt) return;
    std::optional<RankEvent> event = ParseRankEvent(json);
    if (!event) return;
    auto text = [&](const char* key) {
      auto it = event->fields.find(key);
      return it != event->fields.end() && it->is_string() ? it->get<std::string>() : std::string();
    };
    if (event->type == RankEventType::kWarning) {
      output_.Message(absl::StrCat("warning: rank ", rank, ": ", text("message")));
    }
    if (rank != 0) return;
    if (!text("path").empty()) event->fields["path"] = Shown(text("path"));
    if (std::string line = LogLine(*event); !line.empty()) output_.Line(std::move(line));
    if (event->type == RankEventType::kReady) {
      std::string restored = text("restored_from");
      if (!restored.empty()) output_.Message("amctl: resumed from " + Shown(restored));
      if (attempt == 1) output_.Message(absl::StrFormat("amctl: ready after %.2f s", SinceBegun()));
    }
    if (event->type == RankEventType::kDone) done_ = *event;
    progress_.Update(*event);
    output_.Live(progress_.LiveLine(options_.live_width));
  }

  // The last words, and the exit status.
  int Conclude() {
    const controller::Job& job = driver_.job();
    const controller::JobStatus& status = job.status;
    switch (status.phase) {
      case JobPhase::kSucceeded:
        if (done_ && done_->fields.value("reason", nlohmann::json()) == "already_complete") {
          output_.Message(
              absl::StrCat("amctl: already complete at step ", DoneStep(), "; nothing to do"));
        } else if (done_) {
          output_.Message(absl::StrCat("amctl: done at step ", DoneStep(), " after ",
                                       FormatTime(SinceBegun()), Checkpoint()));
        }
        break;
      case JobPhase::kFailed:
        output_.Message(absl::StrCat("amctl: error: ", status.last_words));
        if (status.failure) ShowLog(*status.failure);
        break;
      case JobPhase::kPending:
      case JobPhase::kCancelled:
        output_.Message(absl::StrCat(
            "amctl: ", status.saved ? "saved and left" : "left without saving", Checkpoint()));
        break;
      case JobPhase::kStarting:
      case JobPhase::kRunning:
      case JobPhase::kRestarting:
      case JobPhase::kStopping:
        break;
    }
    return controller::ExitStatusOf(job, interrupted_);
  }

  double SinceBegun() const { return Seconds(clock_.Now() - begun_); }

  int64_t DoneStep() const {
    auto step = done_->fields.find("step");
    return step != done_->fields.end() && step->is_number_integer() ? step->get<int64_t>() : 0;
  }

  std::string Checkpoint() const {
    const std::string& path = driver_.observed().checkpoint;
    return path.empty() ? "" : absl::StrCat("; the last checkpoint is ", Shown(path));
  }

  // As the recipe would say it, where it is below the folder that amctl was started in.
  std::string Shown(const std::string& path) const {
    const std::string& here = options_.working_directory;
    bool below = !here.empty() && path.size() > here.size() + 1 && path.starts_with(here) &&
                 path[here.size()] == '/';
    return below ? path.substr(here.size() + 1) : path;
  }

  void ShowLog(const controller::Failure& failure) {
    const std::vector<std::string>& lines = failure.last_lines;
    size_t first = lines.size() - std::min(lines.size(), kShownLines);
    if (first < lines.size()) {
      output_.Message(absl::StrCat("the last lines of rank ", failure.rank, ":"));
    }
    for (size_t i = first; i < lines.size(); ++i) output_.Message("  | " + ForDisplay(lines[i]));
    const auto& ranks = driver_.observed().ranks;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      if (ranks[rank].killed_because.empty()) continue;
      output_.Message(
          absl::StrCat("rank ", rank, " was stopped because ", ranks[rank].killed_because));
    }
    if (!failure.log_path.empty()) output_.Message("the whole log: " + failure.log_path);
  }

  const RunJobOptions& options_;
  Progress progress_;
  ProgressOutput& output_;
  SystemClock clock_;
  TimePoint begun_ = clock_.Now();
  Spawner spawner_;
  EventLoop loop_;
  controller::AgentService service_;
  controller::JobDriver driver_;
  std::optional<EventLoop::TimerId> wake_timer_;
  int signals_seen_ = 0;
  bool interrupted_ = false;
  std::optional<RankEvent> done_;
};

sigset_t SignalSet() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGTERM, SIGUSR1, SIGINT}) sigaddset(&set, signal);
  struct sigaction hangup;
  sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);  // else nohup wants it to live on
  return set;
}

}  // namespace

StopSignals::StopSignals() {
  sigset_t set = SignalSet();
  AM_CHECK(pthread_sigmask(SIG_BLOCK, &set, nullptr) == 0);
  fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  AM_CHECK(fd_ >= 0);
}

StopSignals::~StopSignals() {
  close(fd_);
  sigset_t set = SignalSet();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

TimePoint LeaveBy(int nth, TimePoint now, Duration grace) {
  if (nth <= 1) return now + grace;
  return nth == 2 ? now + std::min(grace, kShortGrace) : now;
}

int RunJob(controller::JobSpec spec, const RunJobOptions& options, StopSignals& signals,
           Progress progress, ProgressOutput& output) {
  return JobRun(std::move(spec), options, signals, std::move(progress), output).Run();
}

}  // namespace am::cli

// am-controller: waits until the state directory is its own, takes up what is there, listens, and
// runs its loop until TERM. Reads top to bottom.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/exit_status.h"
#include "common/file.h"
#include "common/log.h"
#include "common/status_macros.h"
#include "controller/daemon/controller.h"
#include "controller/server/agent_service.h"
#include "controller/server/api_server.h"
#include "controller/server/audit_log.h"
#include "controller/server/auth.h"
#include "controller/server/controller_options.h"
#include "controller/server/grpc_address.h"
#include "controller/server/local_agent.h"
#include "controller/server/state_lock.h"
#include "controller/server/unix_listener.h"
#include "launcher/plan/machine.h"

namespace am::controller {
namespace {

constexpr int kStandbyIntervalMs = 100;
constexpr Duration kLongestGoodbye = std::chrono::seconds(5);

void Say(const std::string& text) { std::fprintf(stderr, "am-controller: %s\n", text.c_str()); }

// TERM and Ctrl-C, blocked before the first thread.
UniqueFd WatchSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGTERM, SIGINT}) sigaddset(&set, signal);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return UniqueFd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
}

// True: a signal came first.
bool SleepUntilSignal(const UniqueFd& signals, int milliseconds) {
  pollfd fd{.fd = signals.get(), .events = POLLIN, .revents = 0};
  return poll(&fd, 1, milliseconds) > 0;
}

// Nothing: it was told to end while it stood by.
absl::StatusOr<std::optional<UniqueFd>> WaitForLock(const std::string& path,
                                                    const UniqueFd& signals) {
  for (bool said = false;; said = true) {
    AM_ASSIGN_OR_RETURN(std::optional<UniqueFd> lock, TryLock(path));
    if (lock) return lock;
    if (!said) Say("standby: another controller has " + path);
    if (SleepUntilSignal(signals, kStandbyIntervalMs)) return std::optional<UniqueFd>();
  }
}

absl::StatusOr<bool> WaitForLease(Store& store, const Clock& clock, const UniqueFd& signals) {
  for (bool said = false;; said = true) {
    AM_ASSIGN_OR_RETURN(bool held,
                        store.HoldLease(LeaseOwner(), clock.UnixNanos(), kLeaseTtl.count()));
    if (held) return true;
    if (!said) Say("standby: a controller of another host holds the lease of the store");
    if (SleepUntilSignal(signals, kStandbyIntervalMs)) return false;
  }
}

// The controller that owns its state directory.
class Daemon {
 public:
  Daemon(const ControllerOptions& options, const SystemClock& clock, Store& store, UniqueFd signals)
      : options_(options),
        clock_(clock),
        store_(store),
        signals_(std::move(signals)),
        loop_(clock),
        agents_(loop_, AgentService::Nodes::kNamed, AgentCallbacks()),
        controller_(loop_, store, agents_, {}) {}

  absl::Status Run() {
    AM_RETURN_IF_ERROR(controller_.Load());
    AM_ASSIGN_OR_RETURN(audit_, AuditLog::Open(options_.state_dir + "/audit.jsonl", clock_));
    context_.emplace(ServiceContext{.loop = loop_,
                                    .controller = controller_,
                                    .store = store_,
                                    .audit = *audit_,
                                    .clock = clock_,
                                    .machine = plan::LocalCluster(plan::ProbeMachine()),
                                    .state_dir = options_.state_dir,
                                    .version = AMCTL_VERSION,
                                    .started_unix_ns = clock_.UnixNanos()});
    AM_RETURN_IF_ERROR(ListenForAgents());
    AM_ASSIGN_OR_RETURN(api_, ApiServer::Listen(*context_, {options_.listen, options_.token_file}));
    loop_.Watch(signals_.get(), EPOLLIN, [this](uint32_t) { SayGoodbye(); });
    RenewLease(clock_.Now());
    std::printf("am-controller ready on %s\n", api_->address().c_str());
    std::fflush(stdout);
    loop_.Run();
    if (goodbye_.joinable()) goodbye_.join();
    agents_.Close();
    return ending_;
  }

 private:
  AgentService::Callbacks AgentCallbacks() {
    return {.on_hello = [this](const NodeHello& hello) { controller_.NodeConnected(hello); },
            .on_heard = [this](const std::string& node) { controller_.NodeHeard(node); },
            .on_closed =
                [this](const std::string& node, const std::string& reason) {
                  controller_.NodeDisconnected(node, reason);
                },
            .on_observation = [this](const std::string& job,
                                     const Observation& seen) { controller_.Observe(job, seen); },
            .on_rank_event =
                [this](const std::string& job, int64_t attempt, int rank, const std::string& json) {
                  controller_.RankEvent(job, attempt, rank, json);
                }};
  }

  // Agents of this host have a socket of their own, at a place that an agent which outlives us
  // finds again whatever --listen says.
  absl::Status ListenForAgents() {
    std::string path = options_.state_dir + "/agents.sock";
    AM_RETURN_IF_ERROR(RemoveStaleSocket(path));
    AM_ASSIGN_OR_RETURN(agent_listener_, UnixListener::Listen(loop_, path, [this](UniqueFd fd) {
                          agents_.Adopt(std::move(fd));
                        }));
    if (!options_.local_agent) return absl::OkStatus();
    AM_ASSIGN_OR_RETURN(std::string program, FindWorkerProgram());
    std::vector<std::string> arguments = {"--controller", UnixAddress(path), "--state-dir",
                                          options_.state_dir};
    if (!options_.slots.empty()) {
      arguments.insert(arguments.end(), {"--slots", options_.slots});
    }
    local_agent_.emplace(loop_, LocalAgent::Options{.program = std::move(program),
                                                    .arguments = std::move(arguments),
                                                    .state_dir = options_.state_dir});
    return local_agent_->Start();
  }

  void RenewLease(TimePoint held_at) {
    loop_.RunAt(clock_.Now() + kLeaseRenewal, [this, held_at] {
      absl::StatusOr<bool> held =
          store_.HoldLease(LeaseOwner(), clock_.UnixNanos(), kLeaseTtl.count());
      if (held.ok() && *held) return RenewLease(clock_.Now());
      bool lost = held.ok() || clock_.Now() - held_at > kLeaseTtl;
      if (!lost) return RenewLease(held_at);  // the disk is full, say; it is still ours
      ending_ = absl::AbortedError(
          absl::StrCat("the lease of the store is lost: ",
                       held.ok() ? "another host took it" : std::string(held.status().message())));
      SayGoodbye();
    });
  }

  // Calls that are under way are answered by the loop, so it runs on until the server is done with
  // them.
  void SayGoodbye() {
    if (goodbye_.joinable()) return;
    signalfd_siginfo info;
    while (read(signals_.get(), &info, sizeof info) > 0) continue;
    loop_.RunAt(clock_.Now() + kLongestGoodbye, [] { std::_Exit(kExitDone); });
    api_->StopAccepting();
    goodbye_ = std::thread([this] {
      api_->Shutdown();
      loop_.Stop();
    });
  }

  const ControllerOptions& options_;
  const SystemClock& clock_;
  Store& store_;
  UniqueFd signals_;
  EventLoop loop_;
  AgentService agents_;
  Controller controller_;
  std::unique_ptr<AuditLog> audit_;
  std::optional<ServiceContext> context_;
  std::unique_ptr<UnixListener> agent_listener_;
  std::unique_ptr<ApiServer> api_;
  std::optional<LocalAgent> local_agent_;
  std::thread goodbye_;
  absl::Status ending_;
};

absl::Status Serve(const ControllerOptions& options, UniqueFd signals) {
  AM_RETURN_IF_ERROR(MakeDirectories(options.state_dir, 0700));
  AM_ASSIGN_OR_RETURN(std::optional<UniqueFd> lock,
                      WaitForLock(options.state_dir + "/controller.lock", signals));
  if (!lock) return absl::OkStatus();
  SystemClock clock;
  AM_ASSIGN_OR_RETURN(std::unique_ptr<Store> store,
                      OpenSqliteStore(options.state_dir + "/controller.db"));
  AM_ASSIGN_OR_RETURN(bool held, WaitForLease(*store, clock, signals));
  if (!held) return absl::OkStatus();
  Daemon daemon(options, clock, *store, std::move(signals));
  return daemon.Run();
}

absl::Status PrintNewToken(const ControllerOptions& options) {
  size_t colon = options.add_token.find(':');
  std::optional<Role> role = ParseRole(
      colon == std::string::npos ? "" : std::string_view(options.add_token).substr(colon + 1));
  if (!role) {
    return absl::InvalidArgumentError(
        absl::StrCat("--add-token ", options.add_token,
                     ": expected NAME:ROLE, where ROLE is viewer, submitter or admin"));
  }
  AM_ASSIGN_OR_RETURN(std::string token,
                      AddToken(options.token_file, {options.add_token.substr(0, colon), *role}));
  std::printf("%s\n", token.c_str());
  return absl::OkStatus();
}

int Main(int argc, char** argv) {
  absl::StatusOr<ControllerOptions> options =
      ReadControllerOptions({argv + 1, static_cast<size_t>(argc - 1)});
  if (!options.ok()) {
    Say(absl::StrCat(options.status().message(), " (am-controller --help)"));
    return kExitUsage;
  }
  if (options->help) return std::fputs(kControllerUsage, stdout), kExitDone;
  if (options->version) return std::printf("am-controller %s\n", AMCTL_VERSION), kExitDone;
  std::signal(SIGPIPE, SIG_IGN);
  absl::Status status =
      options->add_token.empty() ? Serve(*options, WatchSignals()) : PrintNewToken(*options);
  if (status.ok()) return kExitDone;
  Say(std::string(status.message()));
  return status.code() == absl::StatusCode::kInvalidArgument ? kExitUsage : kExitInfrastructure;
}

}  // namespace
}  // namespace am::controller

int main(int argc, char** argv) {
  am::InitLogFromEnvironment();
  return am::controller::Main(argc, argv);
}

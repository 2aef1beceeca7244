#include "worker/agent/worker_agent.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/log.h"
#include "common/status_macros.h"

namespace am::agent {

namespace v1 = amctl::v1;

namespace {

constexpr Duration kSweepInterval = std::chrono::milliseconds(2);

struct StoreSocket {
  UniqueFd fd;
  uint16_t port = 0;
};

// The socket of the rendezvous store: bound before any rank starts, so no port can be taken in
// between.
absl::StatusOr<StoreSocket> BindStore(const std::string& host) {
  sockaddr_in address{.sin_family = AF_INET, .sin_port = 0, .sin_addr = {}, .sin_zero = {}};
  if (inet_pton(AF_INET, host.c_str(), &address.sin_addr) != 1) {
    return absl::InvalidArgumentError(absl::StrCat("not an IPv4 address to bind to: ", host));
  }
  StoreSocket store{.fd = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))};
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (!store.fd.valid() || bind(store.fd.get(), generic, size) != 0 ||
      listen(store.fd.get(), 1024) != 0 || getsockname(store.fd.get(), generic, &size) != 0) {
    return ErrnoStatus(errno, "cannot bind a port on " + host + " for the rendezvous");
  }
  store.port = ntohs(address.sin_port);
  return store;
}

v1::RankEvent::Type TypeOf(RankEventType type) {
  switch (type) {
    case RankEventType::kHello:
      return v1::RankEvent::HELLO;
    case RankEventType::kReady:
      return v1::RankEvent::READY;
    case RankEventType::kStep:
      return v1::RankEvent::STEP;
    case RankEventType::kValidation:
      return v1::RankEvent::VALIDATION;
    case RankEventType::kCheckpointBegun:
      return v1::RankEvent::CHECKPOINT_BEGUN;
    case RankEventType::kCheckpointDone:
      return v1::RankEvent::CHECKPOINT_DONE;
    case RankEventType::kHeartbeat:
      return v1::RankEvent::HEARTBEAT;
    case RankEventType::kWarning:
      return v1::RankEvent::WARNING;
    case RankEventType::kFailed:
      return v1::RankEvent::FAILED;
    case RankEventType::kDone:
      return v1::RankEvent::DONE;
  }
  return v1::RankEvent::TYPE_UNSPECIFIED;
}

std::string Text(const nlohmann::json& fields, const char* key) {
  auto it = fields.find(key);
  return it != fields.end() && it->is_string() ? it->get<std::string>() : "";
}

bool Has(const std::vector<std::string>& environment, std::string_view name) {
  return std::ranges::any_of(environment, [&](const std::string& entry) {
    return entry.starts_with(name) && entry.size() > name.size() && entry[name.size()] == '=';
  });
}

}  // namespace

WorkerAgent::WorkerAgent(EventLoop& loop, Spawner& spawner, AgentLink& link, AgentOptions options)
    : loop_(loop), spawner_(spawner), link_(link), options_(std::move(options)) {
  absl::StatusOr<Pipe> lifeline = MakePipe();
  AM_CHECK(lifeline.ok());
  lifeline_ = std::move(*lifeline);
}

WorkerAgent::~WorkerAgent() { AM_CHECK(attempt_ == nullptr); }

void WorkerAgent::SayHello() {
  v1::AgentMessage message;
  v1::AgentHello* hello = message.mutable_hello();
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  hello->set_node(host);
  hello->set_pid(getpid());
  if (absl::StatusOr<std::string> boot_id = ReadFile("/proc/sys/kernel/random/boot_id");
      boot_id.ok()) {
    hello->set_boot_id(boot_id->substr(0, boot_id->find('\n')));
  }
  link_.Send(std::move(message));
}

void WorkerAgent::Handle(const v1::ControllerMessage& message) {
  switch (message.body_case()) {
    case v1::ControllerMessage::kStartRanks:
      return Start(message.start_ranks());
    case v1::ControllerMessage::kRendezvous: {
      const v1::Rendezvous& rendezvous = message.rendezvous();
      if (!IsCurrent(rendezvous.job(), rendezvous.attempt())) return;
      return ToRanks({.type = ControlType::kRendezvous,
                      .address = rendezvous.address(),
                      .prefix = rendezvous.prefix()});
    }
    case v1::ControllerMessage::kLeaveRanks: {
      const v1::LeaveRanks& leave = message.leave_ranks();
      if (!IsCurrent(leave.job(), leave.attempt())) return;
      return ToRanks({.type = ControlType::kLeave, .grace_ms = leave.grace_ms()});
    }
    case v1::ControllerMessage::kKillRanks:
      if (!IsCurrent(message.kill_ranks().job(), message.kill_ranks().attempt())) return;
      return Kill(message.kill_ranks().because());
    case v1::ControllerMessage::kForgetAttempt:
    case v1::ControllerMessage::BODY_NOT_SET:
      return;  // of a newer controller
  }
}

void WorkerAgent::Shutdown(std::string because, std::function<void()> done) {
  if (attempt_ == nullptr) return done();
  on_idle_ = std::move(done);
  Kill(because);
}

void WorkerAgent::Start(const v1::StartRanks& start) {
  if (IsCurrent(start.job(), start.attempt())) return;  // said twice
  if (attempt_ != nullptr) {
    v1::AgentMessage message;
    v1::StartFailed* failed = message.mutable_start_failed();
    failed->set_job(start.job());
    failed->set_attempt(start.attempt());
    failed->set_message(absl::StrCat("attempt ", attempt_->number, " of ", attempt_->job,
                                     " still runs on this node"));
    link_.Send(std::move(message));
    return;
  }
  attempt_ = std::make_unique<Attempt>();
  attempt_->job = start.job();
  attempt_->number = start.attempt();
  attempt_->folder =
      absl::StrCat(options_.state_dir, "/jobs/", start.job(), "/attempt-", start.attempt());
  if (absl::Status status = StartAll(start); !status.ok()) {
    v1::AgentMessage message;
    v1::StartFailed* failed = message.mutable_start_failed();
    Stamp(failed);
    failed->set_message(std::string(status.message()));
    link_.Send(std::move(message));
    Kill("the attempt could not be started");
    if (!AnyRunning()) Sweep();
  }
}

absl::Status WorkerAgent::StartAll(const v1::StartRanks& start) {
  AM_RETURN_IF_ERROR(MakeDirectories(attempt_->folder, 0700));
  std::string spec_path = attempt_->folder + "/rank_spec.json";
  AM_RETURN_IF_ERROR(WriteSpec(start, spec_path));
  StoreSocket store;
  if (!start.store_bind_host().empty()) {
    AM_ASSIGN_OR_RETURN(store, BindStore(start.store_bind_host()));
  }
  std::vector<std::string> environment = options_.environment;
  if (!Has(environment, "OMP_NUM_THREADS")) {
    int threads = std::max(1, options_.cores / std::max(1, start.ranks_size()));
    environment.push_back(absl::StrCat("OMP_NUM_THREADS=", threads));
  }
  if (!Has(environment, "OMP_WAIT_POLICY")) environment.push_back("OMP_WAIT_POLICY=passive");

  for (const v1::RankPlace& place : start.ranks()) {
    RankProcess process{.rank = place.rank(),
                        .local_rank = place.local_rank(),
                        .world_size = start.world_size(),
                        .program = options_.rank_program,
                        .spec_path = spec_path,
                        .log_path = absl::StrCat(attempt_->folder, "/rank-", place.rank(), ".log"),
                        .environment = environment,
                        .lifeline_fd = lifeline_.read.get(),
                        .store_fd = place.rank() == 0 ? store.fd.get() : -1};
    size_t index = attempt_->ranks.size();
    RankSupervisor::Callbacks callbacks{
        .on_event = [this, index](
                        const RankEvent& event,
                        std::string_view line) { OnEvent(*attempt_->ranks[index], event, line); },
        .on_exited = [this,
                      index](const ExitState& exit) { OnExited(*attempt_->ranks[index], exit); }};
    attempt_->ranks.push_back(
        std::make_unique<RankSupervisor>(loop_, std::move(process), std::move(callbacks)));
    RankSupervisor& rank = *attempt_->ranks.back();
    AM_RETURN_IF_ERROR(rank.Start(spawner_));

    v1::AgentMessage message;
    v1::RankStarted* started = message.mutable_rank_started();
    Stamp(started);
    started->set_rank(rank.rank());
    started->set_pid(rank.pid());
    started->set_log_path(rank.log().path());
    link_.Send(std::move(message));
  }
  if (store.fd.valid()) {
    v1::AgentMessage message;
    v1::StoreListening* listening = message.mutable_store_listening();
    Stamp(listening);
    listening->set_port(store.port);
    link_.Send(std::move(message));
  }
  return absl::OkStatus();
}

absl::Status WorkerAgent::WriteSpec(const v1::StartRanks& start, const std::string& path) const {
  nlohmann::json spec = nlohmann::json::parse(start.rank_spec_json(), nullptr, false);
  if (!spec.is_object()) return absl::InvalidArgumentError("the rank spec is no JSON object");
  spec["job"] = start.job();
  spec["attempt"] = start.attempt();
  if (start.resume_own_checkpoint()) {
    spec["checkpoint"]["fresh"] = false;
    spec["checkpoint"]["restore_from"] = "";
  }
  return WriteFile(path, spec.dump(1) + "\n", 0600);  // a recipe may hold tokens
}

void WorkerAgent::Kill(const std::string& because) {
  if (attempt_ == nullptr) return;
  for (auto& rank : attempt_->ranks) rank->Kill(because);
}

void WorkerAgent::ToRanks(const ControlMessage& message) {
  for (auto& rank : attempt_->ranks) rank->Send(message);
}

bool WorkerAgent::IsCurrent(const std::string& job, int64_t attempt) const {
  return attempt_ != nullptr && attempt_->job == job && attempt_->number == attempt;
}

void WorkerAgent::OnEvent(const RankSupervisor& rank, const RankEvent& event,
                          std::string_view line) {
  // The rank is known by its pipe; what it says of itself is not needed, and a script may not know.
  v1::AgentMessage message;
  v1::RankEvent* sent = message.mutable_rank_event();
  Stamp(sent);
  sent->set_rank(rank.rank());
  sent->set_type(TypeOf(event.type));
  auto step = event.fields.find("step");
  if (step != event.fields.end() && step->is_number_integer()) sent->set_step(step->get<int64_t>());
  bool ready = event.type == RankEventType::kReady;
  bool done = event.type == RankEventType::kDone;
  sent->set_path(Text(event.fields, ready ? "restored_from" : "path"));
  sent->set_kind(Text(event.fields, done ? "reason" : "kind"));
  sent->set_message(Text(event.fields, "message"));
  sent->set_json(std::string(line));
  link_.Send(std::move(message));
}

void WorkerAgent::OnExited(const RankSupervisor& rank, const ExitState& exit) {
  v1::AgentMessage message;
  v1::RankExited* exited = message.mutable_rank_exited();
  Stamp(exited);
  exited->set_rank(rank.rank());
  exited->set_exit_code(exit.code);
  exited->set_signal(exit.signal);
  exited->set_core_dumped(exit.core_dumped);
  exited->set_killed_because(rank.killed_because());
  for (std::string& kept : rank.log().last_lines()) exited->add_last_lines(std::move(kept));
  exited->set_log_path(rank.log().path());
  link_.Send(std::move(message));
  // On the next turn: a supervisor is still calling us.
  if (!AnyRunning()) loop_.Post([this] { Sweep(); });
}

bool WorkerAgent::AnyRunning() const {
  return std::ranges::any_of(attempt_->ranks, [](const auto& rank) { return rank->running(); });
}

void WorkerAgent::Sweep() {
  std::vector<pid_t> strays = spawner_.Strays({});
  std::erase_if(strays, [](pid_t pid) { return Reap(pid).has_value(); });
  TimePoint now = loop_.clock().Now();
  if (!sweep_until_) sweep_until_ = now + options_.kill_patience;
  // A reaped process may have passed children of its own on to us: only a look that finds nothing
  // ends it.
  if (strays.empty() && spawner_.Strays({}).empty()) return BecomeIdle({});
  if (now >= *sweep_until_) return BecomeIdle(std::move(strays));
  for (pid_t pid : strays) kill(pid, SIGKILL);
  loop_.RunAt(now + kSweepInterval, [this] { Sweep(); });
}

void WorkerAgent::BecomeIdle(std::vector<pid_t> unkillable) {
  v1::AgentMessage message;
  v1::AttemptEmpty* empty = message.mutable_attempt_empty();
  Stamp(empty);
  for (pid_t pid : unkillable) empty->add_unkillable_pids(pid);
  attempt_.reset();
  sweep_until_.reset();
  link_.Send(std::move(message));
  if (on_idle_) std::exchange(on_idle_, nullptr)();
}

}  // namespace am::agent

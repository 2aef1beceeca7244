#include "worker/agent/attempt.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/check.h"
#include "common/status_macros.h"

namespace am::agent {

namespace v1 = amctl::v1;

namespace {

constexpr char kVisibleGpusEnv[] = "CUDA_VISIBLE_DEVICES";
constexpr char kThreadsEnv[] = "OMP_NUM_THREADS";
constexpr char kWaitPolicyEnv[] = "OMP_WAIT_POLICY";

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

// What decisions hang on, and what a controller that was away must hear again.
bool IsState(RankEventType type) {
  return type == RankEventType::kReady || type == RankEventType::kCheckpointDone ||
         type == RankEventType::kFailed || type == RankEventType::kDone;
}

std::string Text(const nlohmann::json& fields, const char* key) {
  auto it = fields.find(key);
  return it != fields.end() && it->is_string() ? it->get<std::string>() : "";
}

std::string ValueOf(const std::vector<std::string>& environment, std::string_view name) {
  for (const std::string& entry : environment) {
    if (entry.starts_with(name) && entry.size() > name.size() && entry[name.size()] == '=') {
      return entry.substr(name.size() + 1);
    }
  }
  return "";
}

void Set(std::vector<std::string>& environment, const std::string& name, const std::string& value) {
  const std::string head = absl::StrCat(name, "=");
  std::erase_if(environment, [&](const std::string& entry) { return entry.starts_with(head); });
  environment.push_back(absl::StrCat(head, value));
}

// The agent may itself be allowed only some of the GPUs: its slots count through those.
std::string GpuOfSlot(const std::string& visible, int slot) {
  std::vector<std::string> allowed = absl::StrSplit(visible, ',', absl::SkipWhitespace());
  size_t index = static_cast<size_t>(slot);
  return index < allowed.size() ? allowed[index] : absl::StrCat(slot);
}

}  // namespace

Attempt::Attempt(EventLoop& loop, const AgentOptions& options, Outbox& outbox, v1::StartRanks order,
                 std::function<void()> on_ended)
    : loop_(loop),
      options_(options),
      outbox_(outbox),
      order_(std::move(order)),
      on_ended_(std::move(on_ended)),
      marks_{.job = order_.job(), .attempt = order_.attempt()},
      folder_(
          absl::StrCat(options_.state_dir, "/jobs/", order_.job(), "/attempt-", order_.attempt())) {
  outbox_.Begin(key());
}

Attempt::~Attempt() { AM_CHECK(RunningRanks().empty()); }

bool Attempt::WantsSlotOf(const Attempt& other) const {
  if (order_.gpus() != other.order_.gpus()) return false;
  return std::ranges::any_of(order_.ranks(), [&](const v1::RankPlace& mine) {
    return std::ranges::any_of(other.order_.ranks(), [&](const v1::RankPlace& theirs) {
      return mine.slot() == theirs.slot();
    });
  });
}

std::set<pid_t> Attempt::RunningRanks() const {
  std::set<pid_t> pids;
  for (const auto& rank : ranks_) {
    if (rank->running()) pids.insert(static_cast<pid_t>(rank->pid()));
  }
  return pids;
}

void Attempt::Start(Spawner& spawner) {
  state_ = State::kRunning;
  if (absl::Status status = StartAll(spawner); !status.ok()) {
    TellStartFailed(std::string(status.message()));
    Kill("the attempt could not be started");
  }
  for (const ControlMessage& message : std::exchange(missed_, {})) ToRanks(message);
  EndWhenAllHave();
}

absl::Status Attempt::StartAll(Spawner& spawner) {
  AM_RETURN_IF_ERROR(MakeDirectories(folder_, 0700));
  std::string spec_path = folder_ + "/rank_spec.json";
  AM_RETURN_IF_ERROR(WriteSpec(spec_path));
  AM_ASSIGN_OR_RETURN(lifeline_, MakePipe());
  marks_.lifeline_inode = InodeOf(lifeline_.read.get());
  StoreSocket store;
  if (!order_.store_bind_host().empty()) {
    AM_ASSIGN_OR_RETURN(store, BindStore(order_.store_bind_host()));
  }
  const std::vector<std::string> environment = Environment();
  const std::string visible_gpus = ValueOf(options_.environment, kVisibleGpusEnv);

  for (const v1::RankPlace& place : order_.ranks()) {
    RankProcess process{.rank = place.rank(),
                        .local_rank = place.local_rank(),
                        .world_size = order_.world_size(),
                        .program = options_.rank_program,
                        .spec_path = spec_path,
                        .log_path = absl::StrCat(folder_, "/rank-", place.rank(), ".log"),
                        .environment = environment,
                        .lifeline_fd = lifeline_.read.get(),
                        .store_fd = place.rank() == 0 ? store.fd.get() : -1};
    if (order_.gpus()) {
      Set(process.environment, kVisibleGpusEnv, GpuOfSlot(visible_gpus, place.slot()));
    }
    size_t index = ranks_.size();
    RankSupervisor::Callbacks callbacks{
        .on_event = [this, index](const RankEvent& event,
                                  std::string_view line) { OnEvent(*ranks_[index], event, line); },
        .on_exited = [this, index](const ExitState& exit) { OnExited(*ranks_[index], exit); }};
    ranks_.push_back(
        std::make_unique<RankSupervisor>(loop_, std::move(process), std::move(callbacks)));
    RankSupervisor& rank = *ranks_.back();
    AM_RETURN_IF_ERROR(rank.Start(spawner));
    marks_.sessions.insert(static_cast<pid_t>(rank.pid()));

    v1::AgentMessage message;
    v1::RankStarted* started = Stamp(message.mutable_rank_started());
    started->set_rank(rank.rank());
    started->set_pid(rank.pid());
    started->set_log_path(rank.log().path());
    Tell(std::move(message));
  }
  if (store.fd.valid()) {
    v1::AgentMessage message;
    v1::StoreListening* listening = Stamp(message.mutable_store_listening());
    listening->set_port(store.port);
    listening->set_bind_host(order_.store_bind_host());
    Tell(std::move(message));
  }
  return absl::OkStatus();
}

int Attempt::Threads() const {
  int shares = order_.gpus() && options_.gpus > 0 ? options_.gpus : options_.cpu_slots;
  return std::max(1, options_.cores / std::max(1, shares > 0 ? shares : order_.ranks_size()));
}

std::vector<std::string> Attempt::Environment() const {
  std::vector<std::string> environment = options_.environment;
  for (const auto& [name, value] : order_.environment()) Set(environment, name, value);
  if (ValueOf(environment, kThreadsEnv).empty()) {
    Set(environment, kThreadsEnv, absl::StrCat(Threads()));
  }
  if (ValueOf(environment, kWaitPolicyEnv).empty()) Set(environment, kWaitPolicyEnv, "passive");
  Set(environment, kJobEnv, order_.job());
  Set(environment, kAttemptEnv, absl::StrCat(order_.attempt()));
  return environment;
}

absl::Status Attempt::WriteSpec(const std::string& path) const {
  nlohmann::json spec = nlohmann::json::parse(order_.rank_spec_json(), nullptr, false);
  if (!spec.is_object()) return absl::InvalidArgumentError("the rank spec is no JSON object");
  spec["job"] = order_.job();
  spec["attempt"] = order_.attempt();
  if (order_.resume_own_checkpoint()) {
    spec["checkpoint"]["fresh"] = false;
    spec["checkpoint"]["restore_from"] = "";
  }
  // A rank divides the whole node among the ranks of its own job, where it is not told better.
  auto dist = spec.find("dist");
  if (options_.cpu_slots > 0 && dist != spec.end() && dist->is_object() &&
      dist->value("threads", nlohmann::json(0)) == 0) {
    (*dist)["threads"] = Threads();
  }
  return WriteFile(path, spec.dump(1) + "\n", 0600);  // a recipe may hold tokens
}

void Attempt::TellStartFailed(const std::string& why) {
  v1::AgentMessage message;
  Stamp(message.mutable_start_failed())->set_message(why);
  Tell(std::move(message));
}

void Attempt::Refuse(const std::string& why) {
  TellStartFailed(why);
  BecomeEmpty({});
}

void Attempt::Kill(const std::string& because) {
  if (state_ == State::kWaiting) return BecomeEmpty({});
  for (auto& rank : ranks_) rank->Kill(because);
}

void Attempt::ToRanks(const ControlMessage& message) {
  if (state_ == State::kWaiting) missed_.push_back(message);
  for (auto& rank : ranks_) rank->Send(message);
}

void Attempt::OnEvent(const RankSupervisor& rank, const RankEvent& event, std::string_view line) {
  // The rank is known by its pipe; what it says of itself is not needed, and a script may not know.
  v1::AgentMessage message;
  v1::RankEvent* sent = Stamp(message.mutable_rank_event());
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
  if (IsState(event.type)) return Tell(std::move(message));
  outbox_.TellNews(std::move(message));
}

void Attempt::OnExited(const RankSupervisor& rank, const ExitState& exit) {
  v1::AgentMessage message;
  v1::RankExited* exited = Stamp(message.mutable_rank_exited());
  exited->set_rank(rank.rank());
  exited->set_exit_code(exit.code);
  exited->set_signal(exit.signal);
  exited->set_core_dumped(exit.core_dumped);
  exited->set_killed_because(rank.killed_because());
  for (std::string& kept : rank.log().last_lines()) exited->add_last_lines(std::move(kept));
  exited->set_log_path(rank.log().path());
  Tell(std::move(message));
  EndWhenAllHave();
}

void Attempt::EndWhenAllHave() {
  if (state_ != State::kRunning || !RunningRanks().empty()) return;
  state_ = State::kSweeping;
  lifeline_.write.reset();  // what listens to it ends by itself
  loop_.Post(on_ended_);    // on the next turn: a supervisor is still calling us
}

void Attempt::BecomeEmpty(const std::vector<pid_t>& unkillable) {
  state_ = State::kEmpty;
  ranks_.clear();
  lifeline_ = {};
  v1::AgentMessage message;
  v1::AttemptEmpty* empty = Stamp(message.mutable_attempt_empty());
  for (pid_t pid : unkillable) empty->add_unkillable_pids(pid);
  Tell(std::move(message));
}

}  // namespace am::agent

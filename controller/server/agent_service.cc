#include "controller/server/agent_service.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "amctl/v1/agent.grpc.pb.h"

namespace am::controller {

namespace v1 = amctl::v1;

namespace {

constexpr char kLoopback[] = "127.0.0.1";

std::optional<Observation> FromRankEvent(const v1::RankEvent& event) {
  switch (event.type()) {
    case v1::RankEvent::READY:
      return RankReady{event.attempt(), event.rank(), event.step(), event.path()};
    case v1::RankEvent::STEP:
      return RankStepped{event.attempt(), event.step()};
    case v1::RankEvent::CHECKPOINT_DONE:
      return CheckpointDone{event.attempt(), event.step(), event.path()};
    case v1::RankEvent::FAILED:
      return RankFailed{event.attempt(), event.rank(), event.kind(), event.message()};
    default:
      return std::nullopt;  // for display and metrics
  }
}

struct Report {
  std::string job;
  Observation seen;
};

template <typename Body>
Report Of(const Body& body, Observation seen) {
  return {body.job(), std::move(seen)};
}

// `address`: where the others reach the node that the message is from.
std::optional<Report> FromMessage(const v1::AgentMessage& message, const std::string& node,
                                  const std::string& address) {
  switch (message.body_case()) {
    case v1::AgentMessage::kStartFailed: {
      const v1::StartFailed& failed = message.start_failed();
      return Of(failed, StartFailed{failed.attempt(), failed.message()});
    }
    case v1::AgentMessage::kStoreListening: {
      const v1::StoreListening& listening = message.store_listening();
      bool here_alone = listening.bind_host() == kLoopback;
      return Of(listening,
                StoreListening{listening.attempt(), absl::StrCat(here_alone ? kLoopback : address,
                                                                 ":", listening.port())});
    }
    case v1::AgentMessage::kRankStarted: {
      const v1::RankStarted& started = message.rank_started();
      return Of(started,
                RankStarted{started.attempt(), started.rank(), started.pid(), started.log_path()});
    }
    case v1::AgentMessage::kRankEvent: {
      std::optional<Observation> seen = FromRankEvent(message.rank_event());
      if (!seen) return std::nullopt;
      return Of(message.rank_event(), *std::move(seen));
    }
    case v1::AgentMessage::kRankExited: {
      const v1::RankExited& exited = message.rank_exited();
      return Of(exited,
                RankExited{.attempt = exited.attempt(),
                           .rank = exited.rank(),
                           .exit = {exited.exit_code(), exited.signal(), exited.core_dumped()},
                           .killed_because = exited.killed_because(),
                           .last_lines = {exited.last_lines().begin(), exited.last_lines().end()},
                           .log_path = exited.log_path()});
    }
    case v1::AgentMessage::kAttemptEmpty: {
      const v1::AttemptEmpty& empty = message.attempt_empty();
      return Of(empty, AttemptEmpty{.attempt = empty.attempt(),
                                    .unkillable_pids = {empty.unkillable_pids().begin(),
                                                        empty.unkillable_pids().end()},
                                    .node = node});
    }
    case v1::AgentMessage::kHello:
    case v1::AgentMessage::kHeartbeat:
    case v1::AgentMessage::BODY_NOT_SET:
      return std::nullopt;
  }
  return std::nullopt;  // of a newer agent
}

NodeHello FromHello(const v1::AgentHello& hello, const std::string& name) {
  NodeHello node{.name = name,
                 .instance = hello.instance(),
                 .boot_id = hello.boot_id(),
                 .version = hello.version(),
                 .nvlink_domain = hello.nvlink_domain(),
                 .gpus = hello.gpus(),
                 .cpu_slots = hello.cpu_slots()};
  for (const v1::AttemptRef& known : hello.attempts()) {
    int64_t& attempt = node.attempts[known.job()];
    attempt = std::max(attempt, known.attempt());
  }
  return node;
}

// The literal address in what gRPC calls the peer, "ipv4:10.1.2.3:5555"; empty: it is on this host.
std::string AddressOf(const std::string& peer) {
  constexpr std::string_view kIpv4 = "ipv4:";
  if (!peer.starts_with(kIpv4)) return "";
  return peer.substr(kIpv4.size(), peer.rfind(':') - kIpv4.size());
}

// One agent's stream. Its reactions run on gRPC's threads, Send on the loop. Keeps itself alive
// until OnDone.
class Session final : public grpc::ServerBidiReactor<v1::AgentMessage, v1::ControllerMessage>,
                      public std::enable_shared_from_this<Session> {
 public:
  using MessageCallback = std::function<void(std::shared_ptr<Session>, v1::AgentMessage)>;
  using ClosedCallback = std::function<void(std::shared_ptr<Session>)>;

  Session(std::string address, MessageCallback on_message, ClosedCallback on_closed)
      : address(std::move(address)),
        on_message_(std::move(on_message)),
        on_closed_(std::move(on_closed)) {}

  const std::string address;        // that it was seen from; empty: this host
  std::optional<std::string> node;  // on the loop: since its hello was taken

  void Begin() {
    {
      std::lock_guard lock(mutex_);
      self_ = shared_from_this();
    }
    StartSendInitialMetadata();  // tells the agent that somebody is here
    StartRead(&incoming_);
  }

  // Ends the stream, after what is queued.
  void End(grpc::Status status) {
    std::lock_guard lock(mutex_);
    if (finishing_) return;
    finishing_ = true;
    status_ = std::move(status);
    FinishWhenWritten();
  }

  void Send(v1::ControllerMessage message) {
    std::lock_guard lock(mutex_);
    if (finishing_) return;
    outgoing_.push_back(std::move(message));
    if (outgoing_.size() == 1) StartWrite(&outgoing_.front());
  }

  void OnReadDone(bool ok) override {
    if (ok) {
      on_message_(self(), std::exchange(incoming_, {}));
      StartRead(&incoming_);
      return;
    }
    std::lock_guard lock(mutex_);
    finishing_ = true;
    FinishWhenWritten();
  }

  void OnWriteDone(bool ok) override {
    std::lock_guard lock(mutex_);
    outgoing_.pop_front();
    if (!ok) outgoing_.clear();
    if (!outgoing_.empty()) {
      StartWrite(&outgoing_.front());
    } else {
      FinishWhenWritten();
    }
  }

  void OnDone() override {
    std::shared_ptr<Session> last = self();
    on_closed_(last);
    std::lock_guard lock(mutex_);
    self_.reset();
  }

 private:
  std::shared_ptr<Session> self() {
    std::lock_guard lock(mutex_);
    return self_;
  }

  void FinishWhenWritten() {
    if (!finishing_ || !outgoing_.empty() || std::exchange(finished_, true)) return;
    Finish(status_);
  }

  MessageCallback on_message_;
  ClosedCallback on_closed_;
  v1::AgentMessage incoming_;
  std::mutex mutex_;
  std::shared_ptr<Session> self_;               // guarded by mutex_
  std::deque<v1::ControllerMessage> outgoing_;  // guarded by mutex_; the front is being written
  grpc::Status status_;                         // guarded by mutex_
  bool finishing_ = false;                      // guarded by mutex_: nothing more is queued
  bool finished_ = false;                       // guarded by mutex_
};

}  // namespace

class AgentService::Impl final : public v1::AgentService::CallbackService {
 public:
  Impl(EventLoop& loop, Nodes nodes, Callbacks callbacks)
      : loop_(loop), nodes_(nodes), callbacks_(std::move(callbacks)) {
    grpc::ServerBuilder builder;
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }

  ~Impl() override { Shutdown(); }

  void Shutdown() {
    if (std::exchange(closed_, true)) return;
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }

  void Adopt(UniqueFd connection) {
    grpc::AddInsecureChannelFromFd(server_.get(), connection.release());
  }

  // To the share of the node, or to every share; nothing where the agent is away.
  void Send(const Placement& placement, const std::string& node,
            const v1::ControllerMessage& message) {
    for (const NodeShare& share : placement) {
      if (node.empty() || share.node == node) SendTo(share.node, message);
    }
  }
  void SendTo(const std::string& node, v1::ControllerMessage message) {
    auto found = agents_.find(node);
    if (found != agents_.end()) found->second.session->Send(std::move(message));
  }

  // What the leading node of the placement binds the store of the rendezvous to.
  std::string BindHost(const Placement& placement) const {
    bool elsewhere = std::ranges::any_of(placement, [&](const NodeShare& share) {
      auto found = agents_.find(share.node);
      return found != agents_.end() && !found->second.address.empty();
    });
    return placement.size() > 1 && elsewhere ? "0.0.0.0" : kLoopback;
  }

 private:
  struct Agent {
    std::shared_ptr<Session> session;
    std::string instance;
    int64_t pid = 0;
    std::string address;  // for peers; empty: this host
  };

  grpc::ServerBidiReactor<v1::AgentMessage, v1::ControllerMessage>* Connect(
      grpc::CallbackServerContext* context) override {
    auto session = std::make_shared<Session>(
        AddressOf(context->peer()),
        [this](std::shared_ptr<Session> from, v1::AgentMessage message) {
          loop_.Post([this, from = std::move(from), message = std::move(message)] {
            Receive(from, message);
          });
        },
        [this](std::shared_ptr<Session> from) {
          loop_.Post([this, from = std::move(from)] { Close(from); });
        });
    session->Begin();
    return session.get();
  }

  bool IsCurrent(const std::shared_ptr<Session>& session) const {
    if (!session->node) return false;
    auto found = agents_.find(*session->node);
    return found != agents_.end() && found->second.session == session;
  }

  void Receive(const std::shared_ptr<Session>& from, const v1::AgentMessage& message) {
    if (message.has_hello()) return Welcome(from, message);
    if (!IsCurrent(from)) return;
    const std::string& node = *from->node;
    callbacks_.on_heard(node);
    const std::string& address = agents_[node].address;
    if (std::optional<Report> report =
            FromMessage(message, node, address.empty() ? kLoopback : address)) {
      callbacks_.on_observation(report->job, report->seen);
    }
    if (message.has_rank_event()) {
      const v1::RankEvent& event = message.rank_event();
      callbacks_.on_rank_event(event.job(), event.attempt(), event.rank(), event.json());
    }
  }

  void Welcome(const std::shared_ptr<Session>& from, const v1::AgentMessage& message) {
    const v1::AgentHello& hello = message.hello();
    const std::string name = nodes_ == Nodes::kOneNameless ? "" : hello.node();
    if (name.empty() && nodes_ == Nodes::kNamed) {
      return from->End({grpc::StatusCode::INVALID_ARGUMENT,
                        "an agent must name its node; give it a --node-name"});
    }
    auto found = agents_.find(name);
    if (found != agents_.end() && found->second.session != from) {
      if (found->second.instance != hello.instance()) {
        return from->End(
            {grpc::StatusCode::ALREADY_EXISTS,
             absl::StrCat("node ", name, " has an agent already, process ", found->second.pid,
                          "; stop that one, or give this one another --node-name")});
      }
      found->second.session->End(
          {grpc::StatusCode::ABORTED, "its agent has dialled again: this stream is out of date"});
    }
    from->node = name;
    agents_[name] = {.session = from,
                     .instance = hello.instance(),
                     .pid = hello.pid(),
                     .address = hello.host().empty() ? from->address : hello.host()};
    v1::ControllerMessage taken;
    taken.set_acked_seq(message.seq());
    from->Send(std::move(taken));
    callbacks_.on_hello(FromHello(hello, name));
  }

  void Close(const std::shared_ptr<Session>& from) {
    if (!IsCurrent(from)) return;
    agents_.erase(*from->node);
    callbacks_.on_closed(*from->node, "its stream was closed");
  }

  EventLoop& loop_;
  const Nodes nodes_;
  const Callbacks callbacks_;
  std::unique_ptr<grpc::Server> server_;
  std::map<std::string, Agent> agents_;  // on the loop, by node
  bool closed_ = false;
};

AgentService::AgentService(EventLoop& loop, Nodes nodes, Callbacks callbacks)
    : impl_(std::make_unique<Impl>(loop, nodes, std::move(callbacks))) {}
AgentService::~AgentService() = default;

void AgentService::Close() { impl_->Shutdown(); }

void AgentService::Adopt(UniqueFd connection) { impl_->Adopt(std::move(connection)); }

void AgentService::Start(const JobSpec& spec, const Placement& placement,
                         const StartRanks& action) {
  v1::ControllerMessage message;
  v1::StartRanks* start = message.mutable_start_ranks();
  start->set_job(spec.id);
  start->set_attempt(action.attempt);
  start->set_rank_spec_json(spec.rank_spec_json);
  start->set_world_size(spec.world_size);
  start->set_resume_own_checkpoint(action.resume_own_checkpoint);
  start->set_gpus(spec.demand.gpus);
  start->mutable_environment()->insert(spec.environment.begin(), spec.environment.end());
  int rank = 0;
  for (const NodeShare& share : placement) {
    start->set_store_bind_host(rank == 0 ? impl_->BindHost(placement) : "");
    start->clear_ranks();
    int local_rank = 0;
    for (int slot : share.slots) {
      v1::RankPlace* place = start->add_ranks();
      place->set_rank(rank++);
      place->set_local_rank(local_rank++);
      place->set_slot(slot);
    }
    if (action.node.empty() || action.node == share.node) impl_->SendTo(share.node, message);
  }
}

void AgentService::Rendezvous(const JobSpec& spec, const Placement& placement,
                              const SendRendezvous& action) {
  v1::ControllerMessage message;
  v1::Rendezvous* rendezvous = message.mutable_rendezvous();
  rendezvous->set_job(spec.id);
  rendezvous->set_attempt(action.attempt);
  rendezvous->set_address(action.address);
  rendezvous->set_prefix(absl::StrCat(spec.id, "/", action.attempt));
  impl_->Send(placement, action.node, message);
}

void AgentService::Leave(const JobSpec& spec, const Placement& placement,
                         const LeaveRanks& action) {
  v1::ControllerMessage message;
  v1::LeaveRanks* leave = message.mutable_leave_ranks();
  leave->set_job(spec.id);
  leave->set_attempt(action.attempt);
  leave->set_grace_ms(std::chrono::ceil<std::chrono::milliseconds>(action.grace).count());
  impl_->Send(placement, action.node, message);
}

void AgentService::Kill(const JobSpec& spec, const Placement& placement, const KillRanks& action) {
  v1::ControllerMessage message;
  v1::KillRanks* kill = message.mutable_kill_ranks();
  kill->set_job(spec.id);
  kill->set_attempt(action.attempt);
  kill->set_because(action.because);
  impl_->Send(placement, action.node, message);
}

void AgentService::Forget(const std::string& job, int64_t attempt, const Placement& placement) {
  v1::ControllerMessage message;
  v1::ForgetAttempt* forget = message.mutable_forget_attempt();
  forget->set_job(job);
  forget->set_attempt(attempt);
  impl_->Send(placement, "", message);
}

}  // namespace am::controller

#include "controller/server/agent_service.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>

#include <chrono>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "amctl/v1/agent.grpc.pb.h"

namespace am::controller {

namespace v1 = amctl::v1;

namespace {

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

std::optional<Observation> FromMessage(const v1::AgentMessage& message) {
  switch (message.body_case()) {
    case v1::AgentMessage::kHello:
      return AgentConnected{};
    case v1::AgentMessage::kStartFailed:
      return StartFailed{message.start_failed().attempt(), message.start_failed().message()};
    case v1::AgentMessage::kStoreListening:
      // Over a unix socket the agent is on this host.
      return StoreListening{message.store_listening().attempt(),
                            absl::StrCat("127.0.0.1:", message.store_listening().port())};
    case v1::AgentMessage::kRankStarted: {
      const v1::RankStarted& started = message.rank_started();
      return RankStarted{started.attempt(), started.rank(), started.pid(), started.log_path()};
    }
    case v1::AgentMessage::kRankEvent:
      return FromRankEvent(message.rank_event());
    case v1::AgentMessage::kRankExited: {
      const v1::RankExited& exited = message.rank_exited();
      return RankExited{.attempt = exited.attempt(),
                        .rank = exited.rank(),
                        .exit = {exited.exit_code(), exited.signal(), exited.core_dumped()},
                        .killed_because = exited.killed_because(),
                        .last_lines = {exited.last_lines().begin(), exited.last_lines().end()},
                        .log_path = exited.log_path()};
    }
    case v1::AgentMessage::kAttemptEmpty: {
      const v1::AttemptEmpty& empty = message.attempt_empty();
      return AttemptEmpty{empty.attempt(),
                          {empty.unkillable_pids().begin(), empty.unkillable_pids().end()}};
    }
    case v1::AgentMessage::kHeartbeat:
    case v1::AgentMessage::BODY_NOT_SET:
      return std::nullopt;  // of a newer agent
  }
  return std::nullopt;
}

// One agent's stream. Its reactions run on gRPC's threads, Send on the loop. Keeps itself alive
// until OnDone.
class Session final : public grpc::ServerBidiReactor<v1::AgentMessage, v1::ControllerMessage>,
                      public std::enable_shared_from_this<Session> {
 public:
  using MessageCallback = std::function<void(std::shared_ptr<Session>, v1::AgentMessage)>;
  using ClosedCallback = std::function<void(std::shared_ptr<Session>)>;

  Session(MessageCallback on_message, ClosedCallback on_closed)
      : on_message_(std::move(on_message)), on_closed_(std::move(on_closed)) {}

  void Begin() {
    {
      std::lock_guard lock(mutex_);
      self_ = shared_from_this();
    }
    StartRead(&incoming_);
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
    if (outgoing_.empty()) Finish(grpc::Status::OK);
  }

  void OnWriteDone(bool ok) override {
    std::lock_guard lock(mutex_);
    outgoing_.pop_front();
    if (!ok) outgoing_.clear();
    if (!outgoing_.empty()) {
      StartWrite(&outgoing_.front());
    } else if (finishing_) {
      Finish(grpc::Status::OK);
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

  MessageCallback on_message_;
  ClosedCallback on_closed_;
  v1::AgentMessage incoming_;
  std::mutex mutex_;
  std::shared_ptr<Session> self_;               // guarded by mutex_
  std::deque<v1::ControllerMessage> outgoing_;  // guarded by mutex_; the front is being written
  bool finishing_ = false;                      // guarded by mutex_
};

}  // namespace

class AgentService::Impl final : public v1::AgentService::CallbackService {
 public:
  Impl(EventLoop& loop, Callbacks callbacks) : loop_(loop), callbacks_(std::move(callbacks)) {
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

  void Send(v1::ControllerMessage message) {
    if (agent_ != nullptr) agent_->Send(std::move(message));
  }

 private:
  grpc::ServerBidiReactor<v1::AgentMessage, v1::ControllerMessage>* Connect(
      grpc::CallbackServerContext*) override {
    auto session = std::make_shared<Session>(
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

  void Receive(const std::shared_ptr<Session>& from, const v1::AgentMessage& message) {
    if (message.has_hello()) agent_ = from;
    if (from != agent_) return;
    if (std::optional<Observation> observation = FromMessage(message)) {
      callbacks_.on_observation(*observation);
    }
    if (message.has_rank_event()) {
      const v1::RankEvent& event = message.rank_event();
      callbacks_.on_rank_event(event.attempt(), event.rank(), event.json());
    }
  }

  void Close(const std::shared_ptr<Session>& from) {
    if (from != agent_) return;
    agent_.reset();
    callbacks_.on_observation(AgentLost{.message = "its stream was closed"});
  }

  EventLoop& loop_;
  Callbacks callbacks_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<Session> agent_;  // on the loop
  bool closed_ = false;
};

AgentService::AgentService(EventLoop& loop, Callbacks callbacks)
    : impl_(std::make_unique<Impl>(loop, std::move(callbacks))) {}
AgentService::~AgentService() = default;

void AgentService::Close() { impl_->Shutdown(); }

void AgentService::Adopt(UniqueFd connection) { impl_->Adopt(std::move(connection)); }

void AgentService::Start(const JobSpec& spec, const Placement&, const StartRanks& action) {
  v1::ControllerMessage message;
  v1::StartRanks* start = message.mutable_start_ranks();
  start->set_job(spec.id);
  start->set_attempt(action.attempt);
  start->set_rank_spec_json(spec.rank_spec_json);
  start->set_world_size(spec.world_size);
  for (int rank = 0; rank < spec.world_size; ++rank) {
    v1::RankPlace* place = start->add_ranks();
    place->set_rank(rank);
    place->set_local_rank(rank);
  }
  start->set_resume_own_checkpoint(action.resume_own_checkpoint);
  start->set_store_bind_host("127.0.0.1");
  impl_->Send(std::move(message));
}

void AgentService::Rendezvous(const JobSpec& spec, const Placement&, const SendRendezvous& action) {
  v1::ControllerMessage message;
  v1::Rendezvous* rendezvous = message.mutable_rendezvous();
  rendezvous->set_job(spec.id);
  rendezvous->set_attempt(action.attempt);
  rendezvous->set_address(action.address);
  rendezvous->set_prefix(absl::StrCat(spec.id, "/", action.attempt));
  impl_->Send(std::move(message));
}

void AgentService::Leave(const JobSpec& spec, const Placement&, const LeaveRanks& action) {
  v1::ControllerMessage message;
  v1::LeaveRanks* leave = message.mutable_leave_ranks();
  leave->set_job(spec.id);
  leave->set_attempt(action.attempt);
  leave->set_grace_ms(std::chrono::ceil<std::chrono::milliseconds>(action.grace).count());
  impl_->Send(std::move(message));
}

void AgentService::Kill(const JobSpec& spec, const Placement&, const KillRanks& action) {
  v1::ControllerMessage message;
  v1::KillRanks* kill = message.mutable_kill_ranks();
  kill->set_job(spec.id);
  kill->set_attempt(action.attempt);
  kill->set_because(action.because);
  impl_->Send(std::move(message));
}

void AgentService::Forget(const std::string& job, int64_t attempt, const Placement&) {
  v1::ControllerMessage message;
  v1::ForgetAttempt* forget = message.mutable_forget_attempt();
  forget->set_job(job);
  forget->set_attempt(attempt);
  impl_->Send(std::move(message));
}

}  // namespace am::controller

#include "worker/agent/controller_link.h"

#include <grpcpp/grpcpp.h>

#include <deque>
#include <mutex>
#include <utility>

#include "amctl/v1/agent.grpc.pb.h"

namespace am::agent {

namespace v1 = amctl::v1;

// Reactions run on gRPC's threads. The hold keeps the stream open for writes from the loop; it is
// given up once, when either side closes.
class ControllerLink::Stream final
    : public grpc::ClientBidiReactor<v1::AgentMessage, v1::ControllerMessage> {
 public:
  Stream(EventLoop& loop, const std::string& address, Callbacks callbacks)
      : loop_(loop), callbacks_(std::move(callbacks)) {
    // No retries in the channel, and no back-off shared with earlier ones: who made the link knows
    // when to dial again.
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stub_ = v1::AgentService::NewStub(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
    stub_->async()->Connect(&context_, this);
    AddHold();
    StartRead(&incoming_);
    StartCall();
  }

  void Send(v1::AgentMessage message) {
    std::lock_guard lock(mutex_);
    if (closing_) return;
    message.set_seq(++seq_);
    outgoing_.push_back(std::move(message));
    if (outgoing_.size() == 1) StartWrite(&outgoing_.front());
  }

  void Close() {
    std::lock_guard lock(mutex_);
    if (std::exchange(closing_, true)) return;
    if (outgoing_.empty()) EndWrites();
  }

  void Cancel() { context_.TryCancel(); }

  void OnReadInitialMetadataDone(bool ok) override {
    if (ok) loop_.Post([this] { callbacks_.on_open(); });
  }

  void OnReadDone(bool ok) override {
    if (ok) {
      loop_.Post(
          [this, message = std::exchange(incoming_, {})] { callbacks_.on_message(message); });
      StartRead(&incoming_);
      return;
    }
    std::lock_guard lock(mutex_);
    closing_ = true;
    if (outgoing_.empty()) EndWrites();
  }

  void OnWriteDone(bool ok) override {
    std::lock_guard lock(mutex_);
    outgoing_.pop_front();
    if (!ok) {
      closing_ = true;
      outgoing_.clear();
    }
    if (!outgoing_.empty()) {
      StartWrite(&outgoing_.front());
    } else if (closing_) {
      EndWrites();
    }
  }

  void OnDone(const grpc::Status& status) override {
    loop_.Post([this, reason = status.error_message()] { callbacks_.on_closed(reason); });
  }

 private:
  void EndWrites() {
    if (std::exchange(ended_, true)) return;
    StartWritesDone();
    RemoveHold();
  }

  EventLoop& loop_;
  Callbacks callbacks_;
  std::unique_ptr<v1::AgentService::Stub> stub_;
  grpc::ClientContext context_;
  v1::ControllerMessage incoming_;
  std::mutex mutex_;
  std::deque<v1::AgentMessage> outgoing_;  // guarded by mutex_; the front is being written
  uint64_t seq_ = 0;                       // guarded by mutex_
  bool closing_ = false;                   // guarded by mutex_
  bool ended_ = false;                     // guarded by mutex_
};

ControllerLink::ControllerLink(EventLoop& loop, const std::string& address, Callbacks callbacks)
    : stream_(std::make_unique<Stream>(loop, address, std::move(callbacks))) {}
ControllerLink::~ControllerLink() = default;

void ControllerLink::Send(v1::AgentMessage message) { stream_->Send(std::move(message)); }
void ControllerLink::Close() { stream_->Close(); }
void ControllerLink::Cancel() { stream_->Cancel(); }

}  // namespace am::agent

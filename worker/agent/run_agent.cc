#include "worker/agent/run_agent.h"

#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/event_loop.h"
#include "common/log.h"
#include "worker/agent/controller_link.h"
#include "worker/agent/worker_agent.h"

namespace am::agent {
namespace {

namespace v1 = amctl::v1;

constexpr Duration kFirstPause = std::chrono::milliseconds(50);
constexpr Duration kLongestPause = std::chrono::seconds(2);

//   dialling ──open: hello──▶ open ──first message──▶ taken ──closed──▶ pause ──▶ dialling
//   away for too long: leaving ──nothing left──▶ end
class Runner {
 public:
  Runner(std::string address, const Clock& clock, Spawner& spawner, AgentOptions options,
         int stop_fd)
      : address_(std::move(address)),
        loop_(clock),
        options_(std::move(options)),
        agent_(loop_, spawner, options_),
        stop_fd_(stop_fd) {}

  std::string Run() {
    if (stop_fd_ >= 0) loop_.Watch(stop_fd_, EPOLLIN, [this](uint32_t) { OnStop(); });
    Dial();
    loop_.Run();
    return stopped_ ? "" : reason_;
  }

 private:
  bool Reconnects() const { return options_.reconnect_for > Duration{}; }
  TimePoint Now() const { return loop_.clock().Now(); }

  void Dial() {
    link_ = std::make_unique<ControllerLink>(
        loop_, address_,
        ControllerLink::Callbacks{
            .on_open = [this] { agent_.Connected(*link_); },
            .on_message = [this](const v1::ControllerMessage& message) { OnMessage(message); },
            .on_closed = [this](const std::string& why) { OnClosed(why); }});
  }

  void OnMessage(const v1::ControllerMessage& message) {
    pause_ = kFirstPause;
    if (away_timer_) loop_.Cancel(*std::exchange(away_timer_, std::nullopt));
    told_.reset();
    agent_.Handle(message);
  }

  void OnClosed(const std::string& why) {
    agent_.Disconnected();
    closed_ = true;
    reason_ = why;
    if (ended_) return loop_.Stop();
    if (!Reconnects()) {
      // Nothing runs that nobody watches.
      return agent_.Shutdown("the controller is gone", {}, [this] { loop_.Stop(); });
    }
    if (!away_timer_ && !leaving_) AwaySince();
    if (std::exchange(told_, why) != why) {
      LogWarning(absl::StrCat("no controller at ", address_, ": ",
                              why.empty() ? "it closed the stream" : why, "; dialling again"));
    }
    // Not all agents at the same moment.
    std::uniform_real_distribution<double> share(0.5, 1.0);
    auto pause = std::chrono::duration_cast<Duration>(pause_ * share(random_));
    pause_ = std::min(2 * pause_, kLongestPause);
    dial_timer_ = loop_.RunAt(Now() + pause, [this] {
      dial_timer_.reset();
      closed_ = false;
      Dial();
    });
  }

  void AwaySince() {
    away_timer_ = loop_.RunAt(Now() + options_.reconnect_for, [this] {
      away_timer_.reset();
      std::string because =
          absl::StrCat("the controller was away for ", Seconds(options_.reconnect_for), " s");
      LogWarning(because + "; leaving");
      Leave(because);
    });
  }

  void OnStop() {
    signalfd_siginfo info;
    if (read(stop_fd_, &info, sizeof info) <= 0) return;
    stopped_ = true;
    if (away_timer_) loop_.Cancel(*std::exchange(away_timer_, std::nullopt));
    Leave("the agent was told to stop");
  }

  // What is sent before the end is still for the controller, if it is there or comes back
  // meanwhile.
  void Leave(const std::string& because) {
    Duration grace = std::exchange(leaving_, true) ? Duration{} : options_.leave_grace;
    agent_.Shutdown(because, grace, [this] { End(); });
  }

  void End() {
    ended_ = true;
    if (closed_) {
      if (dial_timer_) loop_.Cancel(*dial_timer_);
      return loop_.Stop();
    }
    if (agent_.connected()) {
      link_->Close();
    } else {
      link_->Cancel();
    }
  }

  const std::string address_;
  EventLoop loop_;
  const AgentOptions options_;
  WorkerAgent agent_;
  const int stop_fd_;
  std::unique_ptr<ControllerLink> link_;
  std::string reason_;
  std::optional<std::string> told_;  // of its absence: the reason that was logged last
  std::minstd_rand random_{std::random_device{}()};
  Duration pause_ = kFirstPause;
  std::optional<EventLoop::TimerId> away_timer_;
  std::optional<EventLoop::TimerId> dial_timer_;
  bool closed_ = false;   // no stream, none being dialled
  bool leaving_ = false;  // it was away for too long, or we were told to stop
  bool stopped_ = false;
  bool ended_ = false;
};

}  // namespace

std::string RunAgent(const std::string& controller_address, const Clock& clock, Spawner& spawner,
                     AgentOptions options, int stop_fd) {
  return Runner(controller_address, clock, spawner, std::move(options), stop_fd).Run();
}

}  // namespace am::agent

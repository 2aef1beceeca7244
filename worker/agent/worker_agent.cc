#include "worker/agent/worker_agent.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/check.h"
#include "common/file.h"
#include "common/log.h"
#include "common/random.h"

namespace am::agent {

namespace v1 = amctl::v1;

namespace {

constexpr Duration kSweepInterval = std::chrono::milliseconds(2);

}  // namespace

WorkerAgent::WorkerAgent(EventLoop& loop, Spawner& spawner, AgentOptions options)
    : loop_(loop), spawner_(spawner), options_(std::move(options)), instance_(RandomBase32(16)) {}

WorkerAgent::~WorkerAgent() {
  AM_CHECK(Idle());
  Disconnected();
  if (kill_timer_) loop_.Cancel(*kill_timer_);
}

// ---- the controller ----

void WorkerAgent::Connected(AgentLink& link) {
  outbox_.Connected(link, Hello());
  ScheduleHeartbeat();
}

void WorkerAgent::Disconnected() {
  outbox_.Disconnected();
  if (heartbeat_timer_) loop_.Cancel(*std::exchange(heartbeat_timer_, std::nullopt));
}

v1::AgentMessage WorkerAgent::Hello() const {
  v1::AgentMessage message;
  v1::AgentHello* hello = message.mutable_hello();
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  hello->set_node(options_.node.empty() ? host : options_.node);
  hello->set_pid(getpid());
  hello->set_instance(instance_);
  hello->set_version(options_.version);
  hello->set_gpus(options_.gpus);
  hello->set_cpu_slots(std::max(1, options_.cpu_slots));
  hello->set_nvlink_domain(options_.nvlink_domain);
  hello->set_host(options_.host);
  if (absl::StatusOr<std::string> boot_id = ReadFile("/proc/sys/kernel/random/boot_id");
      boot_id.ok()) {
    hello->set_boot_id(boot_id->substr(0, boot_id->find('\n')));
  }
  return message;
}

void WorkerAgent::ScheduleHeartbeat() {
  TimePoint now = loop_.clock().Now();
  heartbeat_timer_ = loop_.RunAt(now + options_.heartbeat_interval, [this] {
    v1::AgentMessage message;
    message.mutable_heartbeat()->set_t_unix_ns(loop_.clock().UnixNanos());
    outbox_.TellNews(std::move(message));
    ScheduleHeartbeat();
  });
}

void WorkerAgent::Handle(const v1::ControllerMessage& message) {
  auto to_ranks = [this](const auto& order, const ControlMessage& said) {
    if (Attempt* attempt = Find(order.job(), order.attempt())) attempt->ToRanks(said);
  };
  switch (message.body_case()) {
    case v1::ControllerMessage::kStartRanks:
      return Start(message.start_ranks());
    case v1::ControllerMessage::kRendezvous:
      return to_ranks(message.rendezvous(), {.type = ControlType::kRendezvous,
                                             .address = message.rendezvous().address(),
                                             .prefix = message.rendezvous().prefix()});
    case v1::ControllerMessage::kLeaveRanks:
      return to_ranks(message.leave_ranks(),
                      {.type = ControlType::kLeave, .grace_ms = message.leave_ranks().grace_ms()});
    case v1::ControllerMessage::kKillRanks: {
      const v1::KillRanks& kill = message.kill_ranks();
      if (Attempt* attempt = Find(kill.job(), kill.attempt())) attempt->Kill(kill.because());
      return AfterEmptying();
    }
    case v1::ControllerMessage::kForgetAttempt:
      return Forget({message.forget_attempt().job(), message.forget_attempt().attempt()});
    case v1::ControllerMessage::BODY_NOT_SET:
      return;  // the answer to the hello, or of a newer controller
  }
}

void WorkerAgent::Shutdown(std::string because, Duration grace, std::function<void()> done) {
  leaving_ = true;
  on_idle_ = std::move(done);
  for (auto& [key, attempt] : attempts_) {
    if (attempt->state() == Attempt::State::kWaiting) attempt->Refuse(because);
  }
  if (grace <= Duration{}) {
    KillAll(because);
  } else {
    for (auto& [key, attempt] : attempts_) {
      attempt->ToRanks({.type = ControlType::kLeave,
                        .grace_ms = std::chrono::ceil<std::chrono::milliseconds>(grace).count()});
    }
    if (kill_timer_) loop_.Cancel(*kill_timer_);
    kill_timer_ = loop_.RunAt(loop_.clock().Now() + grace, [this, because] { KillAll(because); });
  }
  AfterEmptying();
}

// ---- attempts ----

Attempt* WorkerAgent::Find(const std::string& job, int64_t attempt) {
  auto found = attempts_.find({job, attempt});
  return found == attempts_.end() ? nullptr : found->second.get();
}

void WorkerAgent::Start(const v1::StartRanks& order) {
  AttemptKey key{order.job(), order.attempt()};
  auto later = attempts_.lower_bound(key);
  if (later != attempts_.end() && later->first.first == key.first) return;  // said twice, or void
  for (auto earlier = attempts_.lower_bound({key.first, 0}); earlier != later;) {
    Attempt& attempt = *(earlier++)->second;
    attempt.forgotten = true;
    attempt.Kill(absl::StrCat("attempt ", key.second, " takes its place"));
  }
  AfterEmptying();
  auto& attempt = attempts_[key] =
      std::make_unique<Attempt>(loop_, options_, outbox_, order, [this] { Sweep(); });
  if (leaving_) {
    attempt->Refuse("the agent of this node is leaving");
    return AfterEmptying();
  }
  StartWaiting();
}

bool WorkerAgent::MayStart(const Attempt& attempt) const {
  return std::ranges::none_of(attempts_, [&](const auto& entry) {
    const Attempt& other = *entry.second;
    return &other != &attempt && other.holds_slots() &&
           (other.key().first == attempt.key().first || attempt.WantsSlotOf(other));
  });
}

void WorkerAgent::StartWaiting() {
  for (auto& [key, attempt] : attempts_) {
    if (attempt->state() == Attempt::State::kWaiting && MayStart(*attempt)) {
      attempt->Start(spawner_);
    }
  }
}

// Before it is empty there is still something to see to, though nobody wants to hear of it.
void WorkerAgent::Forget(const AttemptKey& key) {
  Attempt* attempt = Find(key.first, key.second);
  if (attempt == nullptr) return;
  attempt->forgotten = true;
  AfterEmptying();
}

void WorkerAgent::KillAll(const std::string& because) {
  for (auto& [key, attempt] : attempts_) attempt->Kill(because);
}

bool WorkerAgent::Idle() const {
  return std::ranges::all_of(
      attempts_, [](const auto& entry) { return entry.second->state() == Attempt::State::kEmpty; });
}

void WorkerAgent::AfterEmptying() {
  std::erase_if(attempts_, [this](const auto& entry) {
    const Attempt& attempt = *entry.second;
    bool done = attempt.state() == Attempt::State::kEmpty && attempt.forgotten;
    if (done) outbox_.Forget(attempt.key());
    return done;
  });
  if (!leaving_) StartWaiting();
  if (on_idle_ && Idle()) std::exchange(on_idle_, nullptr)();
}

// ---- what ranks left behind ----

Attempt* WorkerAgent::OwnerOf(const Stray& stray) const {
  Attempt* last = nullptr;
  int here = 0;
  for (const auto& [key, attempt] : attempts_) {
    if (!attempt->holds_slots()) continue;
    if (IsOf(stray, attempt->marks())) return attempt.get();
    last = attempt.get();
    ++here;
  }
  return here == 1 ? last : nullptr;
}

void WorkerAgent::Sweep() {
  if (sweep_timer_) loop_.Cancel(*std::exchange(sweep_timer_, std::nullopt));
  std::set<pid_t> ranks;
  for (const auto& [key, attempt] : attempts_) ranks.merge(attempt->RunningRanks());
  std::map<Attempt*, std::vector<pid_t>> left;
  bool reaped = false;
  bool unknown_exiting = false;
  for (pid_t pid : spawner_.Strays(ranks)) {
    if (Reap(pid)) {
      reaped = true;
      continue;
    }
    Stray stray = LookAt(pid);
    if (Attempt* owner = OwnerOf(stray)) {
      left[owner].push_back(pid);
    } else if (stray.exiting) {
      unknown_exiting = true;
    } else if (left_alone_.insert(pid).second) {
      LogWarning(absl::StrCat("process ", pid, " was left behind by a rank and bears no mark of ",
                              "its job; it is let live until one job alone is on this node"));
    }
  }

  TimePoint now = loop_.clock().Now();
  bool again = false;
  std::vector<std::pair<Attempt*, std::vector<pid_t>>> emptied;
  for (auto& [key, attempt] : attempts_) {
    if (attempt->state() != Attempt::State::kSweeping) continue;
    if (!attempt->sweep_until) attempt->sweep_until = now + options_.kill_patience;
    std::vector<pid_t>& strays = left[attempt.get()];
    // A reaped process may have passed children of its own on to us: only a look that finds nothing
    // ends it. One that is on its way out shows no marks, and may be of any attempt.
    bool clean = strays.empty() && !reaped && !unknown_exiting;
    if (clean || now >= *attempt->sweep_until) {
      emptied.emplace_back(attempt.get(), std::move(strays));
      continue;
    }
    for (pid_t pid : strays) kill(pid, SIGKILL);
    again = true;
  }
  if (again) sweep_timer_ = loop_.RunAt(now + kSweepInterval, [this] { Sweep(); });
  for (auto& [attempt, unkillable] : emptied) attempt->BecomeEmpty(unkillable);
  if (!emptied.empty()) AfterEmptying();
}

}  // namespace am::agent

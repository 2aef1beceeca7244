#include "common/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "common/check.h"

namespace am {
namespace {

constexpr EventLoop::WatchId kWakeup = 0;

}  // namespace

EventLoop::EventLoop(const Clock& clock)
    : clock_(clock),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      wakeup_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  AM_CHECK(epoll_.valid() && wakeup_.valid());
  epoll_event event{EPOLLIN, {.u64 = kWakeup}};
  AM_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wakeup_.get(), &event) == 0);
}

EventLoop::~EventLoop() = default;

void EventLoop::Run() {
  {
    std::lock_guard lock(mutex_);
    stopped_ = false;
  }
  std::array<epoll_event, 64> ready;
  for (;;) {
    RunPosted();
    RunTimers();
    {
      std::lock_guard lock(mutex_);
      if (stopped_) return;
    }
    int n = epoll_wait(epoll_.get(), ready.data(), ready.size(), TimeoutMs());
    AM_CHECK(n >= 0 || errno == EINTR);
    for (int i = 0; i < n; ++i) {
      if (ready[i].data.u64 == kWakeup) {
        uint64_t count;
        [[maybe_unused]] ssize_t ignored = read(wakeup_.get(), &count, sizeof count);
        continue;
      }
      // An earlier callback of this round may have unwatched it; the copy lives while it runs.
      auto it = watched_.find(ready[i].data.u64);
      if (it == watched_.end()) continue;
      std::shared_ptr<Watched> watched = it->second;
      watched->callback(ready[i].events);
    }
  }
}

void EventLoop::Stop() {
  Post([this] {
    std::lock_guard lock(mutex_);
    stopped_ = true;
  });
}

void EventLoop::Post(Task task) {
  // The wake-up, too, under the lock: the loop may run the task and be destroyed at once.
  std::lock_guard lock(mutex_);
  posted_.push_back(std::move(task));
  uint64_t one = 1;
  [[maybe_unused]] ssize_t ignored = write(wakeup_.get(), &one, sizeof one);
}

EventLoop::WatchId EventLoop::Watch(int fd, uint32_t epoll_events, FdCallback callback) {
  WatchId id = next_id_++;
  watched_[id] = std::make_shared<Watched>(Watched{fd, std::move(callback)});
  epoll_event event{epoll_events, {.u64 = id}};
  AM_CHECK(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0);
  return id;
}

void EventLoop::Unwatch(WatchId id) {
  auto it = watched_.find(id);
  if (it == watched_.end()) return;
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, it->second->fd, nullptr);
  watched_.erase(it);
}

EventLoop::TimerId EventLoop::RunAt(TimePoint when, Task task) {
  TimerId id{when, next_id_++};
  timers_[id] = std::move(task);
  return id;
}

void EventLoop::Cancel(TimerId id) { timers_.erase(id); }

int EventLoop::TimeoutMs() const {
  if (timers_.empty()) return -1;
  Duration left = timers_.begin()->first.first - clock_.Now();
  if (left <= Duration::zero()) return 0;
  // Rounded up, so that the timer is due when the wait ends.
  int64_t ms = std::chrono::ceil<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::min<int64_t>(ms, 60'000));
}

void EventLoop::RunPosted() {
  std::vector<Task> tasks;
  {
    std::lock_guard lock(mutex_);
    tasks.swap(posted_);
  }
  for (Task& task : tasks) task();
}

void EventLoop::RunTimers() {
  while (!timers_.empty() && timers_.begin()->first.first <= clock_.Now()) {
    Task task = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    task();
  }
}

}  // namespace am

// One thread's loop: descriptors, timers, and functions posted from other threads. The controller
// is one such loop, the agent another.
//
// Everything but Post() and Stop() is called on the loop's own thread (or before Run()); callbacks
// run there too, one at a time, and may watch, unwatch, post and stop.
//   EventLoop loop(clock);
//   auto watch = loop.Watch(fd, EPOLLIN, [&](uint32_t events) { ... });
//   loop.RunAt(clock.Now() + 5s, [&] { ... });
//   loop.Run();
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/unique_fd.h"

namespace am {

class EventLoop {
 public:
  using Task = std::function<void()>;
  using FdCallback = std::function<void(uint32_t epoll_events)>;
  using WatchId = uint64_t;
  using TimerId = std::pair<TimePoint, uint64_t>;

  explicit EventLoop(const Clock& clock);
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;

  void Run();            // until Stop(); may be called again
  void Stop();           // thread-safe
  void Post(Task task);  // thread-safe; runs on the loop, in order

  // The descriptor stays the caller's, who unwatches before closing it. Level-triggered.
  WatchId Watch(int fd, uint32_t epoll_events, FdCallback callback);
  void Unwatch(WatchId id);

  TimerId RunAt(TimePoint when, Task task);
  void Cancel(TimerId id);  // fine when it has run

  const Clock& clock() const { return clock_; }

 private:
  struct Watched {
    int fd;
    FdCallback callback;
  };

  int TimeoutMs() const;
  void RunPosted();
  void RunTimers();

  const Clock& clock_;
  UniqueFd epoll_;
  UniqueFd wakeup_;
  uint64_t next_id_ = 1;
  std::map<WatchId, std::shared_ptr<Watched>> watched_;
  std::map<TimerId, Task> timers_;
  std::mutex mutex_;
  std::vector<Task> posted_;  // guarded by mutex_
  bool stopped_ = false;      // guarded by mutex_
};

}  // namespace am

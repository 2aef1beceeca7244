// Child processes that cannot outlive us: started by one dedicated thread, waited for by pidfd,
// swept when they fork away.
//
// The kernel sends the parent-death signal when the *thread* that forked ends, so one thread forks
// for the whole life of the program. The child does only what may be done after a fork in a program
// with threads: it sets its parent-death signal, checks that its parent still lives, makes a
// session of its own, resets signals, puts its descriptors in place, and executes. A supervisor is
// also a subreaper: what its children leave behind becomes its own child, is found by Strays() and
// killed. Double-forked strangers survive only a kill -9 of the supervisor itself (a delegated
// cgroup would be needed for those).
//
//   Spawner spawner;
//   AM_ASSIGN_OR_RETURN(Child child, spawner.Spawn({.program = "/usr/bin/env", .fds = {{log.get(),
//   1}}})); loop.Watch(child.pidfd.get(), EPOLLIN, [&](uint32_t) { std::optional<ExitState> state =
//   Reap(child); ... });
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace am {

struct SpawnRequest {
  std::string program;                   // a path, not looked up
  std::vector<std::string> args;         // after argv[0], which is the program
  std::vector<std::string> env;          // NAME=value, all of it
  std::vector<std::pair<int, int>> fds;  // {ours, the child's}; every other descriptor is closed
};

struct Child {
  pid_t pid = -1;  // also its process group and session
  UniqueFd pidfd;  // readable when it has ended
};

// How a process ended: by a status or by a signal.
struct ExitState {
  int code = 0;
  int signal = 0;  // 0: it exited with `code`
  bool core_dumped = false;
};

class Spawner {
 public:
  Spawner();   // becomes a subreaper
  ~Spawner();  // the children must have been reaped: their parent-death signal fires here
  Spawner(const Spawner&) = delete;

  // Returns when the program runs; an error (not found, not executable, no memory) names it.
  // Thread-safe.
  absl::StatusOr<Child> Spawn(const SpawnRequest& request);

  // Our children that we did not start: orphans of those we did, alive or dead. Those that were
  // there before us (a shell that became us by exec) are left alone. `own` are the children of ours
  // that are still to be reaped.
  std::vector<pid_t> Strays(const std::set<pid_t>& own) const;

 private:
  struct Order;
  void Serve();

  std::set<pid_t> inherited_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Order* order_ = nullptr;  // guarded by mutex_
  bool closing_ = false;    // guarded by mutex_
  std::thread thread_;
};

// The state of a child that has ended, which is gone then; nothing while it runs.
std::optional<ExitState> Reap(const Child& child);
std::optional<ExitState> Reap(pid_t pid);

// To the process and to its whole group. Never fails: what is gone is gone.
void KillGroup(const Child& child, int signal);

// "SIGKILL"; "signal 70" where it has no name.
std::string SignalName(int signal);

}  // namespace am

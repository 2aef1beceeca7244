// Strays: processes that ranks left behind, and which attempt each of them is of.
//
// They are our own children (the agent is a subreaper), so they come from some rank of ours. Of
// which one is certain where any of three marks is left: the attempt's name in the environment that
// the process was executed with, the attempt's lifeline among its open descriptors, a session that
// a rank of the attempt leads. A process that made a session of its own, closed every descriptor
// and replaced its environment bears none: it is known only to be of some attempt that was on this
// node, and is left alone until one attempt is all that is left here.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <set>
#include <string>

namespace am::agent {

inline constexpr char kJobEnv[] = "AMCTL_JOB";
inline constexpr char kAttemptEnv[] = "AMCTL_ATTEMPT";

// What the processes of an attempt bear.
struct AttemptMarks {
  std::string job;
  int64_t attempt = 0;
  uint64_t lifeline_inode = 0;  // of the pipe
  std::set<pid_t> sessions;     // of its ranks
};

// What a process bears, as /proc shows it.
struct Stray {
  pid_t pid = -1;
  pid_t session = 0;
  bool exiting = false;  // on its way out: the other marks are gone already
  std::string job;
  std::string attempt;
  std::set<uint64_t> pipes;  // inodes of those that it has open
};

Stray LookAt(pid_t pid);
bool IsOf(const Stray& stray, const AttemptMarks& attempt);
uint64_t InodeOf(int fd);

}  // namespace am::agent

#include "worker/agent/stray.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/file.h"

namespace am::agent {
namespace {

constexpr unsigned kFlagExiting = 0x4;  // PF_EXITING of the kernel

void ReadStat(const std::string& folder, Stray& stray) {
  absl::StatusOr<std::string> stat = ReadFile(folder + "/stat");
  // "pid (any name, parentheses included) state ppid pgrp session tty tpgid flags …"
  size_t name_end = stat.ok() ? stat->rfind(')') : std::string::npos;
  char state = 'Z';
  unsigned flags = 0;
  if (name_end == std::string::npos ||
      std::sscanf(stat->c_str() + name_end + 1, " %c %*d %*d %d %*d %*d %u", &state, &stray.session,
                  &flags) != 3) {
    stray.exiting = true;  // gone
    return;
  }
  stray.exiting = state == 'Z' || (flags & kFlagExiting) != 0;
}

void ReadEnvironment(const std::string& folder, Stray& stray) {
  absl::StatusOr<std::string> environment = ReadFile(folder + "/environ");
  if (!environment.ok()) return;
  const std::string job = absl::StrCat(kJobEnv, "=");
  const std::string attempt = absl::StrCat(kAttemptEnv, "=");
  for (absl::string_view entry : absl::StrSplit(*environment, '\0')) {
    if (absl::ConsumePrefix(&entry, job)) stray.job = std::string(entry);
    if (absl::ConsumePrefix(&entry, attempt)) stray.attempt = std::string(entry);
  }
}

void ReadPipes(const std::string& folder, Stray& stray) {
  DIR* fds = opendir((folder + "/fd").c_str());
  if (fds == nullptr) return;
  while (dirent* entry = readdir(fds)) {
    char target[64];
    ssize_t n = readlinkat(dirfd(fds), entry->d_name, target, sizeof target - 1);
    if (n <= 0) continue;
    target[n] = '\0';
    unsigned long long inode = 0;
    if (std::sscanf(target, "pipe:[%llu]", &inode) == 1) stray.pipes.insert(inode);
  }
  closedir(fds);
}

}  // namespace

Stray LookAt(pid_t pid) {
  Stray stray{.pid = pid};
  const std::string folder = absl::StrCat("/proc/", pid);
  ReadEnvironment(folder, stray);
  ReadPipes(folder, stray);
  // Last: what was exiting while its marks were read is known to have been.
  ReadStat(folder, stray);
  return stray;
}

bool IsOf(const Stray& stray, const AttemptMarks& attempt) {
  return attempt.sessions.contains(stray.session) || stray.pipes.contains(attempt.lifeline_inode) ||
         (stray.job == attempt.job && stray.attempt == absl::StrCat(attempt.attempt));
}

uint64_t InodeOf(int fd) {
  struct stat status;
  return fstat(fd, &status) == 0 ? status.st_ino : 0;
}

}  // namespace am::agent

// DirectoryLock: one run at a time writes into a checkpoint directory.
//
// Held by the leader for as long as it lives; the kernel drops it with the process, so a killed run leaves nothing to clean up.
#pragma once

#include <chrono>
#include <string>

namespace am::engine {

class DirectoryLock {
 public:
  // Makes `root` where it is missing. A run that was killed a moment ago may still be ending: waits up to `patience` for it, then
  // throws am::Error (kUser). kIo where the directory cannot be made or written.
  explicit DirectoryLock(const std::string& root, std::chrono::milliseconds patience = std::chrono::seconds(2));
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace am::engine

#include "worker/engine/checkpoint/directory_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>

#include "common/error.h"

namespace am::engine {
namespace {

// What the user can mend is never retried; a disk that fails is.
Error Refusal(const std::string& path, int error) {
  const bool user = error == EACCES || error == EPERM || error == EROFS || error == ENOTDIR || error == EEXIST;
  const std::string message = path + ": cannot be written: " + std::strerror(error);
  return user ? UserError(message + "; checkpoint.checkpoint_dir names another place") : IoError(message);
}

}  // namespace

DirectoryLock::DirectoryLock(const std::string& root, std::chrono::milliseconds patience) {
  std::error_code error;
  std::filesystem::create_directories(root, error);
  if (error) throw Refusal(root, error.value());
  const std::string path = root + "/.lock";
  fd_ = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd_ < 0) throw Refusal(root, errno);
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (flock(fd_, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return;  // a file system without locks: as before there were any
    if (std::chrono::steady_clock::now() >= deadline) {
      close(fd_);
      throw UserError(root + ": another run is writing checkpoints here; end it, or give this one another checkpoint.checkpoint_dir");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

DirectoryLock::~DirectoryLock() { close(fd_); }

}  // namespace am::engine

#include "controller/server/rank_log_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/file.h"
#include "common/status_macros.h"

namespace am::controller {

RankLogReader::RankLogReader(std::string path, int64_t tail_bytes)
    : path_(std::move(path)), tail_bytes_(tail_bytes) {}

absl::StatusOr<bool> RankLogReader::Open() {
  // Of a tail the newest file alone: what is older is longer than anybody asks for.
  bool first = !fd_.valid();
  in_older_ = first && tail_bytes_ == 0 && access((path_ + ".1").c_str(), F_OK) == 0;
  std::string path = in_older_ ? path_ + ".1" : path_;
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid() && errno == ENOENT) return false;
  if (!fd.valid()) return ErrnoStatus(errno, "cannot read " + path);
  fd_ = std::move(fd);
  struct stat info;
  if (first && tail_bytes_ > 0 && fstat(fd_.get(), &info) == 0) {
    lseek(fd_.get(), std::max<off_t>(0, info.st_size - tail_bytes_), SEEK_SET);
  }
  return true;
}

bool RankLogReader::WasReplaced() const {
  struct stat ours, current;
  return fstat(fd_.get(), &ours) == 0 && stat(path_.c_str(), &current) == 0 &&
         ours.st_ino != current.st_ino;
}

absl::StatusOr<std::string> RankLogReader::Read(size_t most) {
  if (!fd_.valid()) {
    AM_ASSIGN_OR_RETURN(bool there, Open());
    if (!there) return std::string();
  }
  std::string bytes(most, '\0');
  while (true) {
    // Before the read: what is written between the two is read by the next one.
    bool replaced = WasReplaced();
    ssize_t count = read(fd_.get(), bytes.data(), most);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return ErrnoStatus(errno, "cannot read " + path_);
    if (count > 0) {
      bytes.resize(static_cast<size_t>(count));
      return bytes;
    }
    if (!replaced) return std::string();
    AM_ASSIGN_OR_RETURN(bool there, Open());
    if (!there) return std::string();
  }
}

}  // namespace am::controller

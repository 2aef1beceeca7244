#include "worker/engine/checkpoint/file_ops.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/error.h"

namespace am::engine {
namespace {

namespace fs = std::filesystem;

constexpr size_t kWriteBlockBytes = 8 << 20;
constexpr size_t kReadBlockBytes = 1 << 20;

struct TestHook {
  FileHook hook;
  size_t write_block_bytes = kWriteBlockBytes;
};
TestHook& Hook() {
  static TestHook hook;
  return hook;
}

// Zero, or the errno that a test wants this operation to fail with.
int Announce(FileOp op, const std::string& path) {
  const FileHook& hook = Hook().hook;
  return hook ? hook(op, path) : 0;
}

Error Failure(const std::string& path, const std::string& what, int error,
              int64_t needed_bytes = 0) {
  std::string text = path + ": cannot " + what + ": " + std::strerror(error);
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    if (needed_bytes > 0) text += "; " + HumanBytes(needed_bytes) + " needed";
    text += error == EFBIG ? std::string("; raise the limit on file sizes (ulimit -f)")
                           : ", " + HumanBytes(FreeBytes(path)) +
                                 " free; make room or choose another checkpoint.checkpoint_dir";
  } else if (error == EACCES || error == EPERM || error == EROFS) {
    text += "; make it writable for this user or choose another checkpoint.checkpoint_dir";
  }
  return IoError(text);
}

// Runs `call` (a system call that returns -1 on failure) unless a test fails it; repeats when a
// signal interrupts it.
template <typename Call>
int Do(FileOp op, const std::string& path, Call call) {
  if (const int error = Announce(op, path)) {
    errno = error;
    return -1;
  }
  int result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// Feeds the whole file to `take`, block by block.
template <typename Take>
void ForEachBlock(const std::string& path, Take take) {
  const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) throw IoError(path + ": cannot read: " + std::strerror(errno));
  posix_fadvise(file.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  std::vector<char> block(kReadBlockBytes);
  for (;;) {
    const ssize_t count = read(file.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw IoError(path + ": cannot read: " + std::strerror(errno));
    if (count == 0) return;
    take(block.data(), static_cast<size_t>(count));
  }
}

std::string Hex(const XXH128_hash_t& hash) {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return text;
}

}  // namespace

void SetFileHookForTesting(FileHook hook, size_t write_block_bytes) {
  Hook() = {std::move(hook), write_block_bytes == 0 ? kWriteBlockBytes : write_block_bytes};
}

struct DurableFile::Hasher {
  XXH3_state_t state;
  Hasher() { XXH3_128bits_reset(&state); }
  void Add(const void* data, size_t size) { XXH3_128bits_update(&state, data, size); }
  std::string Digest() const { return Hex(XXH3_128bits_digest(&state)); }
};

DurableFile::DurableFile(const std::string& path, int64_t expected_bytes)
    : path_(path), expected_bytes_(expected_bytes), hasher_(std::make_unique<Hasher>()) {
  fd_ = Do(FileOp::kOpen, path_,
           [&] { return open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666); });
  if (fd_ < 0) throw Failure(path_, "create", errno, expected_bytes_);
  if (expected_bytes_ <= 0) return;
  // Only a refusal for lack of room counts: not every file system can reserve.
  if (fallocate(fd_, FALLOC_FL_KEEP_SIZE, 0, expected_bytes_) != 0 &&
      (errno == ENOSPC || errno == EDQUOT || errno == EFBIG)) {
    const Error failure = Failure(path_, "write", errno, expected_bytes_);
    close(fd_);
    unlink(path_.c_str());
    throw failure;
  }
}

DurableFile::~DurableFile() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(path_.c_str());
}

void DurableFile::Write(const void* data, size_t size) {
  const char* next = static_cast<const char*>(data);
  while (size > 0) {
    const size_t block = std::min(size, Hook().write_block_bytes);
    ssize_t count = -1;
    if (const int error = Announce(FileOp::kWrite, path_)) {
      errno = error;
    } else {
      count = write(fd_, next, block);
    }
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw Failure(path_, "write", errno,
                    std::max(expected_bytes_, written_bytes_ + static_cast<int64_t>(size)));
    }
    // The disk begins now, while we hash and cast what follows, instead of at the fsync.
    sync_file_range(fd_, written_bytes_, count, SYNC_FILE_RANGE_WRITE);
    hasher_->Add(next, static_cast<size_t>(count));
    next += count;
    size -= static_cast<size_t>(count);
    written_bytes_ += count;
  }
}

FileDigest DurableFile::Finish() {
  if (Do(FileOp::kSync, path_, [&] { return fsync(fd_); }) != 0)
    throw Failure(path_, "write", errno, expected_bytes_);
  // Quota and network errors of the last blocks may show only here.
  if (close(std::exchange(fd_, -1)) != 0) {
    const Error failure = Failure(path_, "write", errno, expected_bytes_);
    unlink(path_.c_str());
    throw failure;
  }
  return {written_bytes_, hasher_->Digest()};
}

FileDigest WriteFileDurably(const std::string& path, std::string_view text) {
  DurableFile file(path, static_cast<int64_t>(text.size()));
  file.Write(text);
  return file.Finish();
}

FileDigest CopyFileDurably(const std::string& from, const std::string& to) {
  DurableFile file(to);
  ForEachBlock(from, [&](const char* data, size_t size) { file.Write(data, size); });
  return file.Finish();
}

FileDigest HashFile(const std::string& path) {
  FileDigest digest;
  XXH3_state_t state;
  XXH3_128bits_reset(&state);
  ForEachBlock(path, [&](const char* data, size_t size) {
    XXH3_128bits_update(&state, data, size);
    digest.bytes += static_cast<int64_t>(size);
  });
  digest.xxh3_128 = Hex(XXH3_128bits_digest(&state));
  return digest;
}

std::string ReadTextFile(const std::string& path) {
  std::string text;
  ForEachBlock(path, [&](const char* data, size_t size) { text.append(data, size); });
  return text;
}

void MakeDirectories(const std::string& path) {
  std::error_code ignored;
  if (path.empty() || fs::is_directory(path, ignored)) return;
  const fs::path parent = fs::path(path).parent_path();
  MakeDirectories(parent.string());
  const int result = Do(FileOp::kMakeDirectory, path, [&] { return mkdir(path.c_str(), 0777); });
  if (result != 0 && !(errno == EEXIST && fs::is_directory(path, ignored))) {
    throw Failure(path, "make the directory", errno);
  }
}

void SyncFile(const std::string& path) {
  const int result = Do(FileOp::kSync, path, [&] {
    const Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    return file.get() < 0 ? -1 : fsync(file.get());
  });
  if (result != 0) throw Failure(path, "write", errno);
}

void SyncDirectory(const std::string& path) {
  const int result = Do(FileOp::kSyncDirectory, path, [&] {
    const Fd directory(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (directory.get() < 0) return -1;
    // Some network file systems keep directories durable on their own and answer EINVAL.
    return fsync(directory.get()) == 0 || errno == EINVAL ? 0 : -1;
  });
  if (result != 0) throw Failure(path, "write the directory", errno);
}

void RenamePath(const std::string& from, const std::string& to) {
  if (Do(FileOp::kRename, to, [&] { return rename(from.c_str(), to.c_str()); }) != 0) {
    throw Failure(to, "rename " + from + " to it", errno);
  }
}

bool ExchangePaths(const std::string& a, const std::string& b) {
  const int result = Do(FileOp::kRename, b, [&] {
    return renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE);
  });
  if (result == 0) return true;
  if (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP) return false;
  throw Failure(b, "put " + a + " in its place", errno);
}

void MakeSymlink(const std::string& target, const std::string& path) {
  if (Do(FileOp::kSymlink, path, [&] { return symlink(target.c_str(), path.c_str()); }) != 0) {
    throw Failure(path, "make a symbolic link", errno);
  }
}

void RemoveTree(const std::string& path) {
  const fs::path original(path);
  fs::path doomed = original;
  const std::string name = original.filename().string();
  if (name.rfind(kDeletingPrefix, 0) != 0) {
    doomed = original.parent_path() / (std::string(kDeletingPrefix) + name);
    std::error_code ignored;
    fs::remove_all(doomed, ignored);
    RenamePath(original.string(), doomed.string());
  }
  if (const int error = Announce(FileOp::kRemove, path)) throw Failure(path, "remove", error);
  std::error_code error;
  fs::remove_all(doomed, error);
  if (error) throw Failure(doomed.string(), "remove", error.value());
}

int64_t FreeBytes(const std::string& path) {
  fs::path place = fs::absolute(path);
  struct statvfs found;
  while (statvfs(place.c_str(), &found) != 0) {
    if (!place.has_relative_path()) return 0;
    place = place.parent_path();
  }
  return static_cast<int64_t>(found.f_bavail) * static_cast<int64_t>(found.f_frsize);
}

std::string HumanBytes(int64_t bytes) {
  static constexpr const char* kUnits[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000) return std::to_string(bytes) + " bytes";
  double value = static_cast<double>(bytes) / 1000;
  int unit = 0;
  while (value >= 999.95 && unit < 5) {
    value /= 1000;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %s", value, kUnits[unit]);
  return text;
}

}  // namespace am::engine

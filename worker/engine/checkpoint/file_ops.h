// What a checkpoint does to a disk: few operations, each durable, each failing as am::Error (kIo)
// that names the path, the reason, and for writes the bytes that were needed and the bytes that
// were free.
//
// Everything that makes or moves a checkpoint goes through here, so that a test can stop the
// process, or fail, at each single operation (SetFileHookForTesting). Any thread; two threads do
// not share a DurableFile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace am::engine {

enum class FileOp {
  kOpen,
  kWrite,
  kSync,
  kMakeDirectory,
  kSyncDirectory,
  kRename,
  kSymlink,
  kRemove
};

// Called before each operation; what is not zero is the errno with which it fails instead. Writes
// are cut into blocks.
using FileHook = std::function<int(FileOp op, const std::string& path)>;
void SetFileHookForTesting(FileHook hook, size_t write_block_bytes);

// Size and checksum of a file, gathered while it was written.
struct FileDigest {
  int64_t bytes = 0;
  std::string xxh3_128;  // 32 hexadecimal digits
};

// A new file: written front to back, hashed on the way, fsynced at the end. One that is not
// finished is removed.
class DurableFile {
 public:
  // `expected_bytes` is reserved at once where the file system can, so that a full disk is met
  // before hours of work.
  explicit DurableFile(const std::string& path, int64_t expected_bytes = 0);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  void Write(const void* data, size_t size);
  void Write(std::string_view text) { Write(text.data(), text.size()); }
  FileDigest Finish();

 private:
  struct Hasher;
  std::string path_;
  int64_t expected_bytes_;
  int64_t written_bytes_ = 0;
  int fd_ = -1;
  std::unique_ptr<Hasher> hasher_;
};

FileDigest WriteFileDurably(const std::string& path, std::string_view text);
FileDigest CopyFileDurably(const std::string& from,
                           const std::string& to);  // byte for byte, symbolic links followed
FileDigest HashFile(const std::string& path);
std::string ReadTextFile(const std::string& path);

void MakeDirectories(const std::string& path);
void SyncFile(const std::string& path);
void SyncDirectory(const std::string& path);
void RenamePath(const std::string& from, const std::string& to);
// Swaps two paths in one step; false where the file system cannot.
bool ExchangePaths(const std::string& a, const std::string& b);
void MakeSymlink(const std::string& target, const std::string& path);
// A tree is first renamed to .deleting-<name>, so that no half of it is ever taken for the whole.
void RemoveTree(const std::string& path);

inline constexpr std::string_view kDeletingPrefix = ".deleting-";

// Free bytes for this user on the file system of `path` (or of its nearest parent that exists).
int64_t FreeBytes(const std::string& path);
// "1.6 GB"
std::string HumanBytes(int64_t bytes);

}  // namespace am::engine

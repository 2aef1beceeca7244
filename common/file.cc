#include "common/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace am {
namespace {

// Debian's Abseil has a string_view of its own: convert at the edge.
absl::string_view Abseil(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

absl::Status ErrnoStatus(int error, std::string_view what) {
  return absl::Status(absl::ErrnoToStatusCode(error),
                      absl::StrCat(Abseil(what), ": ", std::strerror(error)));
}

absl::StatusOr<Pipe> MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return ErrnoStatus(errno, "cannot make a pipe");
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

absl::Status SetNonBlocking(int fd) {
  int flags = fcntl(fd, F_GETFL);
  if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return ErrnoStatus(errno, "cannot make a descriptor non-blocking");
  }
  return absl::OkStatus();
}

absl::Status MakeDirectories(const std::string& path, mode_t mode) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    std::string prefix = path.substr(0, end);
    if (mkdir(prefix.c_str(), mode) != 0) {
      int error = errno;
      struct stat status;
      bool there = stat(prefix.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
      if (error == EEXIST) error = ENOTDIR;
      if (!there) return ErrnoStatus(error, "cannot create directory " + prefix);
    }
    if (end == std::string::npos) return absl::OkStatus();
  }
}

absl::Status WriteFile(const std::string& path, std::string_view content, mode_t mode) {
  std::string temporary = path + ".tmp";
  UniqueFd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot write " + temporary);
  if (absl::Status status = WriteAll(fd.get(), content); !status.ok()) {
    unlink(temporary.c_str());
    return absl::Status(status.code(), absl::StrCat(temporary, ": ", status.message()));
  }
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    return ErrnoStatus(errno, "cannot rename " + temporary + " to " + path);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot read " + path);
  std::string content;
  char buffer[1 << 16];
  for (;;) {
    ssize_t n = read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, "cannot read " + path);
    if (n == 0) return content;
    content.append(buffer, static_cast<size_t>(n));
  }
}

absl::Status WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, "write");
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

std::string NearestThere(const std::string& path) {
  std::filesystem::path there = path;
  while (!there.empty() && !Exists(there.string())) {
    std::filesystem::path above = there.parent_path();
    if (above == there) break;
    there = above;
  }
  return there.empty() ? "." : there.string();
}

std::optional<double> FreeBytes(const std::string& path) {
  std::error_code error;
  std::filesystem::space_info space = std::filesystem::space(NearestThere(path), error);
  if (error) return std::nullopt;
  return static_cast<double>(space.available);
}

bool IsDirectory(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

std::string Basename(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

std::string Getenv(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace am

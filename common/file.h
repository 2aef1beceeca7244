// File helpers of the control plane: a Status that names the path and what the system said.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace am {

// "cannot create /x/y: Permission denied". The code follows errno (kPermissionDenied, kNotFound,
// kUnavailable, …).
absl::Status ErrnoStatus(int error, std::string_view what);

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};
absl::StatusOr<Pipe> MakePipe();  // close-on-exec on both ends, blocking

absl::Status SetNonBlocking(int fd);

// Creates the missing directories of `path` with `mode`; fine when all are there.
absl::Status MakeDirectories(const std::string& path, mode_t mode);

// Replaces the file as a whole: written under another name in its directory, then renamed.
absl::Status WriteFile(const std::string& path, std::string_view content, mode_t mode);
absl::StatusOr<std::string> ReadFile(const std::string& path);

// Writes everything, through interruptions and short writes.
absl::Status WriteAll(int fd, std::string_view bytes);

// False as well where it cannot be told.
bool Exists(const std::string& path);
bool IsDirectory(const std::string& path);
// The path itself or the nearest directory above it that is there.
std::string NearestThere(const std::string& path);
// Bytes that this user may still write where `path` is or will be; nothing where that is not known.
std::optional<double> FreeBytes(const std::string& path);

std::string Basename(std::string_view path);
std::string Getenv(const char* name);  // empty when unset

}  // namespace am

#include "controller/server/state_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/file.h"

namespace am::controller {

absl::StatusOr<std::optional<UniqueFd>> TryLock(const std::string& path) {
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot open " + path);
  if (flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return std::optional<UniqueFd>(std::move(fd));
  if (errno == EWOULDBLOCK) return std::optional<UniqueFd>();
  return ErrnoStatus(errno, "cannot lock " + path);
}

std::string LeaseOwner() {
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  std::string boot_id = ReadFile("/proc/sys/kernel/random/boot_id").value_or("");
  return absl::StrCat(host, "/", absl::StripSuffix(boot_id, "\n"));
}

}  // namespace am::controller

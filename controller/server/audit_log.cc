#include "controller/server/audit_log.h"

#include <fcntl.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/file.h"
#include "common/log.h"

namespace am::controller {

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(const std::string& path,
                                                         const Clock& clock) {
  UniqueFd fd(open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot write " + path);
  return std::unique_ptr<AuditLog>(new AuditLog(path, std::move(fd), clock));
}

void AuditLog::Write(const Entry& entry) {
  nlohmann::ordered_json line = {
      {"time", absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::FromUnixNanos(clock_.UnixNanos()),
                                absl::UTCTimeZone())},
      {"who", entry.who.name},
      {"role", entry.who.name.empty() ? "" : std::string(Name(entry.who.role))},
      {"from", entry.from},
      {"what", entry.what}};
  if (!entry.job.empty()) line["job"] = entry.job;
  if (!entry.node.empty()) line["node"] = entry.node;
  line["status"] = absl::StatusCodeToString(entry.status.code());
  std::string text =
      line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  std::lock_guard lock(mutex_);
  absl::Status written = WriteAll(fd_.get(), text);
  if (!written.ok() && !std::exchange(complained_, true)) {
    LogError(absl::StrCat("cannot write ", path_, ": ", written.message(),
                          "; who did what is not recorded from here on"));
  }
}

}  // namespace am::controller

// AuditLog: who did what, when, and what came of it: JSON lines in <state>/audit.jsonl. Refused
// calls are in it, too. Thread-safe.
//   {"time":"2030-05-01T12:00:00.123Z","who":"ada","role":"submitter","from":"ipv4:127.0.0.1:4711",
//    "what":"CancelJob","job":"am-…","status":"OK"}
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/unique_fd.h"
#include "controller/server/auth.h"

namespace am::controller {

class AuditLog {
 public:
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& path,
                                                        const Clock& clock);

  struct Entry {
    Identity who;  // nobody: without a name
    std::string from;
    std::string what;
    std::string job;
    std::string node;
    absl::Status status;
  };
  // What cannot be written is said once in the log of the program: a full disk stops no job.
  void Write(const Entry& entry);

 private:
  AuditLog(std::string path, UniqueFd fd, const Clock& clock)
      : path_(std::move(path)), fd_(std::move(fd)), clock_(clock) {}

  std::string path_;
  UniqueFd fd_;
  const Clock& clock_;
  std::mutex mutex_;
  bool complained_ = false;  // guarded by mutex_
};

}  // namespace am::controller

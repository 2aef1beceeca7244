#include "worker/agent/log_capture.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/file.h"
#include "common/log.h"

namespace am::agent {

LogCapture::LogCapture(std::string path, int64_t max_file_bytes)
    : path_(std::move(path)),
      max_file_bytes_(max_file_bytes),
      lines_(kMaxLineBytes,
             [this](std::string_view line, size_t cut_bytes) { Keep(line, cut_bytes); }) {}

absl::Status LogCapture::Open() {
  file_.reset(open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  file_bytes_ = 0;
  return file_.valid() ? absl::OkStatus() : ErrnoStatus(errno, "cannot write the log " + path_);
}

void LogCapture::Append(std::string_view bytes) {
  lines_.Feed(bytes);
  if (!file_.valid()) return;
  absl::Status status = WriteAll(file_.get(), bytes);
  file_bytes_ += static_cast<int64_t>(bytes.size());
  if (status.ok() && file_bytes_ >= max_file_bytes_) {
    rename(path_.c_str(), (path_ + ".1").c_str());
    status = Open();
  }
  if (!status.ok()) {
    file_.reset();
    LogWarning(absl::StrCat("the log ", path_, " ends here: ", status.message()));
  }
}

void LogCapture::Finish() { lines_.Finish(); }

void LogCapture::Keep(std::string_view line, size_t cut_bytes) {
  std::string kept(line);
  if (cut_bytes > 0) absl::StrAppend(&kept, " [", cut_bytes, " more bytes in the log]");
  last_lines_.push_back(std::move(kept));
  if (last_lines_.size() > kLastLines) last_lines_.pop_front();
}

}  // namespace am::agent

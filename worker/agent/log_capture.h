// The log of one rank: bytes to a file, as they come, and the last lines kept for whoever asks why
// it died.
//
// Nothing is decoded: invalid UTF-8, NUL, lines of a megabyte and `\r` progress bars reach the file
// unchanged. A file that cannot be written (disk full) is reported once and costs the log, never
// the rank. Over `max_file_bytes` the file is renamed to `….1` and begun anew.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/line_reader.h"
#include "common/unique_fd.h"

namespace am::agent {

class LogCapture {
 public:
  static constexpr size_t kLastLines = 200;
  static constexpr size_t kMaxLineBytes = 4096;  // of a kept line; the file has all of it
  static constexpr int64_t kMaxFileBytes = 256 << 20;

  explicit LogCapture(std::string path, int64_t max_file_bytes = kMaxFileBytes);

  absl::Status Open();
  void Append(std::string_view bytes);
  void Finish();  // the rest of the last line

  const std::string& path() const { return path_; }
  std::vector<std::string> last_lines() const { return {last_lines_.begin(), last_lines_.end()}; }

 private:
  void Keep(std::string_view line, size_t cut_bytes);

  std::string path_;
  int64_t max_file_bytes_;
  UniqueFd file_;
  int64_t file_bytes_ = 0;
  std::deque<std::string> last_lines_;
  LineReader lines_;
};

}  // namespace am::agent

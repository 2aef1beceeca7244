// RankLogReader: the log of one rank as a stream of bytes, from its beginning or its last bytes,
// and on as it grows. A log that was renamed when it became too large (worker/agent/log_capture.h)
// is read first.
//   RankLogReader reader(folder + "/rank-0.log", 0);
//   AM_ASSIGN_OR_RETURN(std::string bytes, reader.Read(64 << 10));  // empty: nothing more for now
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/unique_fd.h"

namespace am::controller {

class RankLogReader {
 public:
  // `tail_bytes`: only the last ones of what is there at the first Read; 0: all.
  RankLogReader(std::string path, int64_t tail_bytes);

  // Empty where the file is not there (yet) or has no more.
  absl::StatusOr<std::string> Read(size_t most);

 private:
  absl::StatusOr<bool> Open();  // false: it is not there
  bool WasReplaced() const;

  std::string path_;
  int64_t tail_bytes_;
  UniqueFd fd_;
  bool in_older_ = false;  // reads `….1`
};

}  // namespace am::controller

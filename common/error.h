// The one exception of the engine and of the text room.
//
// LibTorch and nlohmann::json throw, so the rooms that stand on them do too: `throw
// UserError("...")`, caught once, in the main of the program, and turned into an exit status there.
// The control plane uses absl::Status instead and never throws (docs/adr/0003-errors.md). This
// header needs nothing but the standard library.
#pragma once

#include <stdexcept>
#include <string>

namespace am {

enum class ErrorKind {
  kUser,      // the recipe, the model directory or the data are wrong: never retried
  kIo,        // the file system refused: disk full, no permission, truncated read
  kPeerLost,  // another rank died or stopped answering
  kInternal,  // a broken invariant of ours
};

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

inline Error UserError(const std::string& message) { return Error(ErrorKind::kUser, message); }
inline Error IoError(const std::string& message) { return Error(ErrorKind::kIo, message); }
inline Error PeerLostError(const std::string& message) {
  return Error(ErrorKind::kPeerLost, message);
}
inline Error InternalError(const std::string& message) {
  return Error(ErrorKind::kInternal, message);
}

}  // namespace am

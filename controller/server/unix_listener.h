// A listening unix socket that only its owner may use: mode 0600, and the peer's credentials are
// checked on every connection.
//
// gRPC's own listener does neither, so connections are accepted here and handed to the server by
// descriptor. On the controller's loop. The socket's file goes with the object (or with Unlink,
// when nobody else is to connect).
//   AM_ASSIGN_OR_RETURN(auto listener, UnixListener::Listen(loop, path, [&](UniqueFd fd) {
//   service.Adopt(std::move(fd)); }));
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/event_loop.h"
#include "common/unique_fd.h"

namespace am::controller {

class UnixListener {
 public:
  using ConnectionCallback = std::function<void(UniqueFd fd)>;

  // `path` must be shorter than 108 bytes (the kernel's limit) and free.
  static absl::StatusOr<std::unique_ptr<UnixListener>> Listen(EventLoop& loop,
                                                              const std::string& path,
                                                              ConnectionCallback on_connection);
  ~UnixListener();
  UnixListener(const UnixListener&) = delete;

  void Unlink();

 private:
  UnixListener(EventLoop& loop, std::string path, UniqueFd fd, ConnectionCallback on_connection);
  void Accept();

  EventLoop& loop_;
  std::string path_;
  UniqueFd fd_;
  ConnectionCallback on_connection_;
  EventLoop::WatchId watch_;
};

}  // namespace am::controller

#include "controller/server/unix_listener.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/file.h"
#include "common/log.h"

namespace am::controller {

absl::StatusOr<std::unique_ptr<UnixListener>> UnixListener::Listen(
    EventLoop& loop, const std::string& path, ConnectionCallback on_connection) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  if (path.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(
        absl::StrCat("the socket path ", path, " has ", path.size(),
                     " bytes and the system allows 107; set XDG_RUNTIME_DIR to a shorter one"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "cannot make a unix socket");
  // On Linux the file gets the mode of the unbound socket: there is no moment at which others could
  // connect.
  if (fchmod(fd.get(), 0600) != 0 ||
      bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return ErrnoStatus(errno, "cannot bind the socket " + path);
  }
  if (chmod(path.c_str(), 0600) != 0 || listen(fd.get(), 64) != 0) {
    auto status = ErrnoStatus(errno, "cannot listen on " + path);
    unlink(path.c_str());
    return status;
  }
  return std::unique_ptr<UnixListener>(
      new UnixListener(loop, path, std::move(fd), std::move(on_connection)));
}

UnixListener::UnixListener(EventLoop& loop, std::string path, UniqueFd fd,
                           ConnectionCallback on_connection)
    : loop_(loop),
      path_(std::move(path)),
      fd_(std::move(fd)),
      on_connection_(std::move(on_connection)),
      watch_(loop.Watch(fd_.get(), EPOLLIN, [this](uint32_t) { Accept(); })) {}

UnixListener::~UnixListener() {
  loop_.Unwatch(watch_);
  Unlink();
}

void UnixListener::Unlink() {
  if (!path_.empty()) unlink(path_.c_str());
  path_.clear();
}

void UnixListener::Accept() {
  UniqueFd connection(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!connection.valid()) return;
  ucred peer{};
  socklen_t size = sizeof peer;
  bool known = getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
  if (!known || peer.uid != geteuid()) {
    LogWarning(absl::StrCat("refused a connection of user ", peer.uid, " (process ", peer.pid,
                            "): this socket is for user ", geteuid()));
    return;
  }
  on_connection_(std::move(connection));
}

}  // namespace am::controller

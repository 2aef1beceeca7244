#include "worker/engine/comm/address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "common/error.h"

namespace am::engine {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

AddressList Lookup(const std::string& host, int port, int socktype, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = socktype;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int rc = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (rc != 0) {
    throw UserError("rendezvous: the address '" + host + "' does not resolve (" + gai_strerror(rc) +
                    "); give a name or an address that every node can reach");
  }
  return AddressList(found, &freeaddrinfo);
}

std::string Numeric(const sockaddr* address, socklen_t length) {
  char text[NI_MAXHOST];
  const int rc = getnameinfo(address, length, text, sizeof(text), nullptr, 0, NI_NUMERICHOST);
  if (rc != 0) throw InternalError(std::string("rendezvous: getnameinfo: ") + gai_strerror(rc));
  return text;
}

class Socket {
 public:
  Socket(int family, int type) : fd_(socket(family, type | SOCK_CLOEXEC, 0)) {
    if (fd_ < 0) throw IoError(std::string("rendezvous: socket: ") + std::strerror(errno));
  }
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace

std::string ResolveHost(const std::string& host, int port) {
  const AddressList found = Lookup(host, port, SOCK_STREAM, 0);
  return Numeric(found->ai_addr, found->ai_addrlen);
}

std::string LocalAddressTowards(const std::string& address, int port) {
  const AddressList found = Lookup(address, port, SOCK_DGRAM, AI_NUMERICHOST);
  // Connecting a datagram socket sends nothing: it only asks the routing table.
  const Socket probe(found->ai_family, SOCK_DGRAM);
  sockaddr_storage local{};
  socklen_t length = sizeof(local);
  if (connect(probe.fd(), found->ai_addr, found->ai_addrlen) != 0 ||
      getsockname(probe.fd(), reinterpret_cast<sockaddr*>(&local), &length) != 0) {
    throw IoError("rendezvous: no route to " + address + ": " + std::strerror(errno));
  }
  return Numeric(reinterpret_cast<const sockaddr*>(&local), length);
}

int ListenOn(const std::string& address, int port) {
  const AddressList found = Lookup(address, port, SOCK_STREAM, AI_NUMERICHOST | AI_PASSIVE);
  Socket listener(found->ai_family, SOCK_STREAM);
  const int on = 1;
  setsockopt(listener.fd(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(listener.fd(), found->ai_addr, found->ai_addrlen) != 0 ||
      listen(listener.fd(), SOMAXCONN) != 0) {
    throw UserError("rendezvous: rank 0 cannot listen on " + address + " port " +
                    std::to_string(port) + ": " + std::strerror(errno));
  }
  return listener.Release();
}

}  // namespace am::engine

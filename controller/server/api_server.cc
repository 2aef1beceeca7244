#include "controller/server/api_server.h"

#include <grpcpp/server_posix.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/file.h"
#include "common/status_macros.h"
#include "controller/server/grpc_address.h"

namespace am::controller {
namespace {

constexpr char kUnix[] = "unix:";
constexpr int kMostMessageBytes = 16 << 20;
constexpr int kMostThreads = 1024;  // calls and streams at a time
constexpr std::chrono::milliseconds kShutdownPatience(200);

std::string HostOf(const std::string& listen) {
  std::string host = listen.substr(0, listen.rfind(':'));
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  return host;
}

grpc::ServerBuilder& Limit(grpc::ServerBuilder& builder) {
  grpc::ResourceQuota quota("api");
  quota.SetMaxThreads(kMostThreads);
  return builder.SetResourceQuota(quota).SetMaxReceiveMessageSize(kMostMessageBytes);
}

}  // namespace

absl::Status CheckListen(const std::string& listen, const std::string& token_file) {
  if (absl::StartsWith(listen, kUnix)) {
    if (listen.size() > sizeof kUnix && listen[sizeof kUnix - 1] == '/') return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("--listen ", listen, ": expected unix: and an absolute path"));
  }
  if (!absl::StrContains(listen, ':') || HostOf(listen).empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen ", listen, ": expected unix:PATH or HOST:PORT"));
  }
  if (token_file.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--listen ", listen, ": a port needs --token-file: whoever reaches it could run programs"));
  }
  std::string host = HostOf(listen);
  if (host != "localhost" && host != "::1" && !absl::StartsWith(host, "127.")) {
    return absl::InvalidArgumentError(
        absl::StrCat("--listen ", listen, ": ", host,
                     " is beyond this host, and the port is not encrypted; listen on 127.0.0.1 and "
                     "forward it through ssh"));
  }
  return absl::OkStatus();
}

absl::Status RemoveStaleSocket(const std::string& path) {
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  if (path.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(absl::StrCat("the socket path ", path, " has ", path.size(),
                                                   " bytes and the system allows 107"));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("another controller listens on ", path, "; choose another --listen"));
  }
  if (errno == ENOENT) return absl::OkStatus();
  if (errno != ECONNREFUSED) return ErrnoStatus(errno, "cannot use the socket " + path);
  unlink(path.c_str());
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ApiServer>> ApiServer::Listen(ServiceContext& context,
                                                             const Options& options) {
  AM_RETURN_IF_ERROR(CheckListen(options.listen, options.token_file));
  bool local = absl::StartsWith(options.listen, kUnix);
  ControllerService::Authenticate authenticate;
  if (local) {
    // The listener lets in processes of this user alone.
    authenticate = [who = Identity{UserName(), Role::kAdmin}](std::string_view) { return who; };
  } else {
    AM_RETURN_IF_ERROR(TokenFile::Load(options.token_file).status());
    authenticate =
        [path = options.token_file](std::string_view authorization) -> absl::StatusOr<Identity> {
      AM_ASSIGN_OR_RETURN(TokenFile tokens, TokenFile::Load(path));
      return tokens.Identify(authorization);
    };
  }
  std::unique_ptr<ApiServer> server(new ApiServer(context, std::move(authenticate)));
  AM_RETURN_IF_ERROR(
      local ? server->ListenOnUnix(context.loop, options.listen.substr(sizeof kUnix - 1))
            : server->ListenOnTcp(options.listen));
  return server;
}

absl::Status ApiServer::ListenOnUnix(EventLoop& loop, const std::string& path) {
  AM_RETURN_IF_ERROR(MakeDirectories(path.substr(0, path.rfind('/')), 0700));
  AM_RETURN_IF_ERROR(RemoveStaleSocket(path));
  grpc::ServerBuilder builder;
  server_ = Limit(builder).RegisterService(&service_).BuildAndStart();
  if (server_ == nullptr) return absl::InternalError("gRPC did not start");
  AM_ASSIGN_OR_RETURN(listener_, UnixListener::Listen(loop, path, [this](UniqueFd connection) {
                        grpc::AddInsecureChannelFromFd(server_.get(), connection.release());
                      }));
  address_ = UnixAddress(path);
  return absl::OkStatus();
}

absl::Status ApiServer::ListenOnTcp(const std::string& address) {
  int port = 0;
  grpc::ServerBuilder builder;
  // Else two controllers could share a port.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  server_ = Limit(builder).RegisterService(&service_).BuildAndStart();
  if (server_ == nullptr || port == 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", address, "; is it taken?"));
  }
  address_ = absl::StrCat(address.substr(0, address.rfind(':')), ":", port);
  return absl::OkStatus();
}

ApiServer::~ApiServer() { Shutdown(); }

void ApiServer::Shutdown() {
  if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now() + kShutdownPatience);
}

}  // namespace am::controller

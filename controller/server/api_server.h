// ApiServer: where the API listens: a unix socket for the user that the controller runs as, an
// admin here, or a TCP port for bearers of tokens. One gRPC server each.
//   AM_ASSIGN_OR_RETURN(auto server, ApiServer::Listen(context, {.listen =
//   "unix:/run/amctl/c.sock"})); std::cout << server->address(); server->Shutdown();  // not on the
//   loop: calls that are under way wait for it
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "controller/server/controller_service.h"
#include "controller/server/unix_listener.h"

namespace am::controller {

// "unix:/run/amctl/controller.sock", "127.0.0.1:7070", "[::1]:0". TCP needs a token file, and for
// now stays on this host, since nothing encrypts it.
absl::Status CheckListen(const std::string& listen, const std::string& token_file);

// Takes away the socket file of a controller that is gone. FailedPrecondition where one listens.
absl::Status RemoveStaleSocket(const std::string& path);

class ApiServer {
 public:
  struct Options {
    std::string listen;
    std::string token_file;  // of TCP; read at every call, so a change counts at once
  };

  static absl::StatusOr<std::unique_ptr<ApiServer>> Listen(ServiceContext& context,
                                                           const Options& options);
  ~ApiServer();

  const std::string& address() const { return address_; }  // as clients dial it
  // Nobody new on the unix socket, whose file goes.
  void StopAccepting() { listener_.reset(); }
  void Shutdown();

 private:
  ApiServer(ServiceContext& context, ControllerService::Authenticate authenticate)
      : service_(context, std::move(authenticate)) {}

  absl::Status ListenOnUnix(EventLoop& loop, const std::string& path);
  absl::Status ListenOnTcp(const std::string& address);

  ControllerService service_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<UnixListener> listener_;
};

}  // namespace am::controller

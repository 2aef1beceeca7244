// Where the controller is and with what credential it is called: option, then environment, then the
// user's file, then this machine's socket.
//   --server unix:PATH | HOST:PORT      AMCTL_SERVER
//   --token-file FILE                   AMCTL_TOKEN_FILE
//   ~/.config/amctl/config.yaml:        server: …, token_file: …
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "launcher/cli/command.h"
#include "launcher/cli/words.h"

namespace am::cli {

// Of every command that asks the controller.
inline constexpr Option kServerOption = {
    "server", "ADDR", "unix:PATH or HOST:PORT ($AMCTL_SERVER, else this machine's socket)"};
inline constexpr Option kTokenFileOption = {"token-file", "FILE",
                                            "holds the token for a port ($AMCTL_TOKEN_FILE)"};
inline constexpr Option kJsonOption = {"json", "",
                                       "print JSON, as controller.proto names the fields"};

struct ServerContext {
  std::string server;
  std::string token;  // empty: none is needed
};

absl::StatusOr<ServerContext> FindServer(const Words& words);

}  // namespace am::cli

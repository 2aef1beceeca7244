// The command line of am-controller. Pure but for the environment.
#pragma once

#include <span>
#include <string>

#include "absl/status/statusor.h"

namespace am::controller {

struct ControllerOptions {
  std::string state_dir;   // $XDG_STATE_HOME/amctl or /var/lib/amctl
  std::string listen;      // unix:$XDG_RUNTIME_DIR/amctl/controller.sock or below /run
  std::string token_file;  // of a port
  std::string add_token;   // NAME:ROLE; nothing else is done then
  bool local_agent = true;
  std::string slots;  // of the local agent; empty: one a GPU, or one a core
  bool help = false;
  bool version = false;
};

// The options, checked; InvalidArgument says what is wrong.
absl::StatusOr<ControllerOptions> ReadControllerOptions(std::span<char* const> words);

extern const char kControllerUsage[];

}  // namespace am::controller

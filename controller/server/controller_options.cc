#include "controller/server/controller_options.h"

#include <map>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/file.h"
#include "common/status_macros.h"
#include "controller/server/api_server.h"

namespace am::controller {

const char kControllerUsage[] =
    R"(usage: am-controller [options]

Looks after jobs: takes them from `amctl submit`, places them on nodes, restarts what fails. Ends on TERM
and leaves the jobs running; a new one finds them again. A second one with the same state directory
stands by and takes over when the first is gone.

  --state-dir DIR      jobs, events and logs ($XDG_STATE_HOME/amctl, else /var/lib/amctl)
  --listen ADDR        unix:PATH, for processes of this user alone, or HOST:PORT with --token-file
                       (unix:$XDG_RUNTIME_DIR/amctl/controller.sock, else /run/amctl/controller.sock)
  --token-file FILE    who may call: NAME ROLE SHA256 a line, mode 0600
  --add-token NAME:ROLE
                       adds a token to that file and prints it; viewer, submitter or admin
  --no-agent           start no am-worker on this host
  --slots N            CPU slots of that am-worker (one a core)
  --version, --help

Example: am-controller --state-dir /var/lib/amctl
)";

absl::StatusOr<ControllerOptions> ReadControllerOptions(std::span<char* const> words) {
  ControllerOptions options;
  const std::map<std::string_view, std::string*> values = {{"--state-dir", &options.state_dir},
                                                           {"--listen", &options.listen},
                                                           {"--token-file", &options.token_file},
                                                           {"--slots", &options.slots},
                                                           {"--add-token", &options.add_token}};
  for (size_t i = 0; i < words.size(); ++i) {
    std::string_view word = words[i];
    size_t equals = word.find('=');
    std::string_view name = word.substr(0, equals);
    if (auto found = values.find(name); found != values.end()) {
      bool here = equals != std::string_view::npos;
      if (!here && ++i == words.size()) {
        return absl::InvalidArgumentError(absl::StrCat(std::string(name), " needs a value"));
      }
      *found->second = here ? std::string(word.substr(equals + 1)) : words[i];
    } else if (word == "--no-agent") {
      options.local_agent = false;
    } else if (word == "--help" || word == "-h") {
      options.help = true;
    } else if (word == "--version") {
      options.version = true;
    } else {
      return absl::InvalidArgumentError(absl::StrCat("unknown option ", std::string(word)));
    }
  }
  if (options.state_dir.empty()) {
    std::string state = Getenv("XDG_STATE_HOME");
    options.state_dir = state.empty() ? "/var/lib/amctl" : state + "/amctl";
  }
  if (options.state_dir[0] != '/') {
    return absl::InvalidArgumentError(
        absl::StrCat("--state-dir ", options.state_dir, ": expected an absolute path"));
  }
  if (options.listen.empty()) {
    std::string runtime = Getenv("XDG_RUNTIME_DIR");
    options.listen =
        absl::StrCat("unix:", runtime.empty() ? "/run" : runtime, "/amctl/controller.sock");
  }
  if (!options.add_token.empty() && options.token_file.empty()) {
    return absl::InvalidArgumentError("--add-token needs --token-file");
  }
  AM_RETURN_IF_ERROR(CheckListen(options.listen, options.token_file));
  return options;
}

}  // namespace am::controller

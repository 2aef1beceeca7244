// am-worker: the agent of one node as a program. It dials its controller, does what it is told, and
// ends when the controller closes the stream; whatever ends it, its ranks end with it.
//
//   am-worker --controller unix:/run/amctl/controller.sock [--state-dir DIR]
#include <sched.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>

#include "common/exit_status.h"
#include "common/file.h"
#include "common/log.h"
#include "worker/agent/rank_program.h"
#include "worker/agent/run_agent.h"

namespace {

constexpr char kUsage[] =
    "usage: am-worker --controller ADDRESS [--state-dir DIR]\n"
    "  --controller ADDRESS   where the controller listens, e.g. unix:/run/amctl/controller.sock\n"
    "  --state-dir DIR        where logs of ranks go (/var/lib/amctl)\n";

int Usage(std::string_view problem) {
  std::fprintf(stderr, "am-worker: %.*s\n%s", static_cast<int>(problem.size()), problem.data(),
               kUsage);
  return am::kExitUsage;
}

}  // namespace

int main(int argc, char** argv) {
  am::InitLogFromEnvironment();
  std::signal(SIGPIPE, SIG_IGN);
  std::string controller;
  am::agent::AgentOptions options{.state_dir = "/var/lib/amctl"};
  for (int i = 1; i < argc; ++i) {
    std::string_view word = argv[i];
    if (word == "--help" || word == "-h") return std::fputs(kUsage, stdout), am::kExitDone;
    std::string* value = word == "--controller"  ? &controller
                         : word == "--state-dir" ? &options.state_dir
                                                 : nullptr;
    if (value == nullptr) return Usage("unknown option " + std::string(word));
    if (++i == argc) return Usage(std::string(word) + " needs a value");
    *value = argv[i];
  }
  if (controller.empty()) return Usage("--controller is missing");

  am::SystemClock clock;
  am::Spawner spawner;
  absl::StatusOr<std::string> program = am::agent::FindRankProgram();
  if (!program.ok())
    return Usage({program.status().message().data(), program.status().message().size()});
  options.rank_program = *program;
  for (char** entry = environ; *entry != nullptr; ++entry) options.environment.emplace_back(*entry);
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) options.cores = CPU_COUNT(&cores);
  std::string reason = am::agent::RunAgent(controller, clock, spawner, options);
  if (reason.empty()) return am::kExitDone;
  am::LogError("the controller at " + controller + " is gone: " + reason);
  return am::kExitUnreachable;
}

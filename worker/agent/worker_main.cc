// am-worker: the agent of one node as a program. It dials its controller, does what it is told, and
// dials again when the stream is lost; its ranks go on meanwhile. SIGTERM: they save and leave, and
// so does it. Whatever ends it, its ranks end with it.
//
//   am-worker --controller unix:/run/amctl/controller.sock [--state-dir DIR] [--slots N] …
#include <dirent.h>
#include <sched.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "common/exit_status.h"
#include "common/file.h"
#include "common/log.h"
#include "common/unique_fd.h"
#include "worker/agent/rank_program.h"
#include "worker/agent/run_agent.h"

namespace {

constexpr char kUsage[] =
    "usage: am-worker --controller ADDRESS [OPTIONS]\n"
    "  --controller ADDRESS    where the controller listens: unix:/run/amctl/controller.sock\n"
    "  --state-dir DIR         where logs of ranks go (/var/lib/amctl)\n"
    "  --node-name NAME        what this node is called (the host's name)\n"
    "  --gpus N                GPUs to give to ranks (CUDA_VISIBLE_DEVICES, else all of the node)\n"
    "  --slots N               CPU slots, which divide the cores (one a core, or one a GPU)\n"
    "  --nvlink-domain NAME    nodes of one NVLink domain have the same\n"
    "  --host ADDRESS          where peers reach this node (as the controller sees it)\n"
    "  --reconnect-for TIME    how long ranks go on without a controller: 90s, 10m (10m); 0: not\n";

int Usage(std::string_view problem) {
  std::fprintf(stderr, "am-worker: %.*s\n%s", static_cast<int>(problem.size()), problem.data(),
               kUsage);
  return am::kExitUsage;
}

int CountGpus() {
  if (std::string visible = am::Getenv("CUDA_VISIBLE_DEVICES"); !visible.empty()) {
    std::vector<std::string> entries = absl::StrSplit(visible, ',', absl::SkipWhitespace());
    return static_cast<int>(entries.size());
  }
  int gpus = 0;
  DIR* devices = opendir("/dev");
  if (devices == nullptr) return 0;
  while (dirent* entry = readdir(devices)) {
    absl::string_view name = entry->d_name;
    int number = 0;
    gpus += absl::ConsumePrefix(&name, "nvidia") && absl::SimpleAtoi(name, &number);
  }
  closedir(devices);
  return gpus;
}

}  // namespace

int main(int argc, char** argv) {
  am::InitLogFromEnvironment();
  std::signal(SIGPIPE, SIG_IGN);
  std::string controller, gpus, slots, reconnect_for = "10m";
  am::agent::AgentOptions options{.state_dir = "/var/lib/amctl", .version = AMCTL_VERSION};
  for (int i = 1; i < argc; ++i) {
    std::string_view word = argv[i];
    if (word == "--help" || word == "-h") return std::fputs(kUsage, stdout), am::kExitDone;
    std::string* value = word == "--controller"      ? &controller
                         : word == "--state-dir"     ? &options.state_dir
                         : word == "--node-name"     ? &options.node
                         : word == "--gpus"          ? &gpus
                         : word == "--slots"         ? &slots
                         : word == "--nvlink-domain" ? &options.nvlink_domain
                         : word == "--host"          ? &options.host
                         : word == "--reconnect-for" ? &reconnect_for
                                                     : nullptr;
    if (value == nullptr) return Usage("unknown option " + std::string(word));
    if (++i == argc) return Usage(std::string(word) + " needs a value");
    *value = argv[i];
  }
  if (controller.empty()) return Usage("--controller is missing");

  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) options.cores = CPU_COUNT(&cores);
  options.gpus = CountGpus();
  if (!gpus.empty() && (!absl::SimpleAtoi(gpus, &options.gpus) || options.gpus < 0)) {
    return Usage("--gpus " + gpus + " is not a number of GPUs, 0 or more");
  }
  options.cpu_slots = options.gpus > 0 ? options.gpus : options.cores;
  if (!slots.empty() && (!absl::SimpleAtoi(slots, &options.cpu_slots) || options.cpu_slots < 1)) {
    return Usage("--slots " + slots + " is not a number of slots, 1 or more");
  }
  absl::Duration time;
  if (!absl::ParseDuration(reconnect_for, &time) || time < absl::ZeroDuration() ||
      time > absl::Hours(24 * 365)) {
    return Usage("--reconnect-for " + reconnect_for + " is not a time such as 90s, 10m or 2h");
  }
  options.reconnect_for = absl::ToChronoNanoseconds(time);
  absl::StatusOr<std::string> program = am::agent::FindRankProgram();
  if (!program.ok())
    return Usage({program.status().message().data(), program.status().message().size()});
  options.rank_program = *program;
  for (char** entry = environ; *entry != nullptr; ++entry) options.environment.emplace_back(*entry);

  // Before the first thread starts, so that none of them is interrupted.
  sigset_t stop;
  sigemptyset(&stop);
  sigaddset(&stop, SIGTERM);
  sigaddset(&stop, SIGINT);
  pthread_sigmask(SIG_BLOCK, &stop, nullptr);
  am::UniqueFd stop_fd(signalfd(-1, &stop, SFD_CLOEXEC | SFD_NONBLOCK));

  am::SystemClock clock;
  am::Spawner spawner;
  std::string reason = am::agent::RunAgent(controller, clock, spawner, options, stop_fd.get());
  if (reason.empty()) return am::kExitDone;
  am::LogError("the controller at " + controller + " is gone: " + reason);
  return am::kExitUnreachable;
}

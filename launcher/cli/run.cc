// amctl run: from the words on the command line to a job that runs. Reads top to bottom.
#include <sched.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/exit_status.h"
#include "common/file.h"
#include "common/random.h"
#include "common/status_macros.h"
#include "controller/server/prepare_job.h"
#include "launcher/cli/check.h"
#include "launcher/cli/command.h"
#include "launcher/cli/run_job.h"
#include "launcher/cli/words.h"
#include "worker/agent/rank_program.h"

namespace am::cli {
namespace {

constexpr Option kOptions[] = {
    {"nproc-per-node", "N", "ranks to start (a rank for each GPU; one where there is none)",
     "gpus-per-node"},
    {"nodes", "N", "1: this machine"},
    {"cluster", "C", "local, another built-in name, or a file (local)"},
    {"fresh", "", "begin anew, even where a checkpoint could be resumed"},
    kStrictOption,
    {"state-dir", "DIR", "where logs go ($XDG_STATE_HOME/amctl)"},
};

// What was asked for, beside the recipe.
struct RunOptions {
  std::string recipe;
  std::vector<recipe::Override> overrides;
  std::optional<int> ranks;
  std::string cluster;
  bool fresh = false;
  bool strict = false;
  std::string state_dir;  // empty: the standard one
};

absl::StatusOr<RunOptions> ReadRunOptions(const std::vector<std::string>& args) {
  AM_ASSIGN_OR_RETURN(Words words, SplitWords(kRunCommand, args));
  RunOptions options{.overrides = words.overrides,
                     .cluster = words.Value("cluster").value_or("local"),
                     .fresh = words.Has("fresh"),
                     .strict = words.Has("strict"),
                     .state_dir = words.Value("state-dir").value_or("")};
  AM_ASSIGN_OR_RETURN(options.recipe, TheRecipe(words));
  AM_ASSIGN_OR_RETURN(options.ranks, words.Count("nproc-per-node"));
  AM_ASSIGN_OR_RETURN(std::optional<int> nodes, words.Count("nodes"));
  if (nodes.value_or(1) != 1) {
    return absl::InvalidArgumentError(
        "--nodes: this command runs on this machine alone; use --nodes 1");
  }
  return options;
}

int CoresOfThisProcess() {
  cpu_set_t cores;
  return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

std::string StateDir(const RunOptions& asked) {
  if (!asked.state_dir.empty()) return asked.state_dir;
  std::string state = Getenv("XDG_STATE_HOME");
  if (!state.empty()) return state + "/amctl";
  std::string home = Getenv("HOME");
  return home.empty() ? absl::StrCat("/tmp/amctl-", geteuid()) : home + "/.local/state/amctl";
}

std::string WorkingDirectory() {
  char path[PATH_MAX];
  return getcwd(path, sizeof path) == nullptr ? "" : path;
}

int TerminalWidth() {
  winsize size{};
  bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col - 1 : 79;
}

int Fail(CommandContext& context, absl::string_view message) {
  context.err << "amctl run: " << message << '\n';
  return kExitUsage;
}

int RunRun(CommandContext& context) {
  StopSignals signals;  // before any thread
  absl::StatusOr<RunOptions> asked = ReadRunOptions(context.args);
  if (!asked.ok()) {
    return Fail(context, absl::StrCat(asked.status().message(), " (amctl help run)"));
  }
  recipe::Diagnostics of_cluster;
  std::optional<plan::Cluster> cluster = NamedCluster(asked->cluster, of_cluster);
  Tell(context.err, of_cluster);
  if (!cluster) return kExitUsage;

  controller::PreparedJob prepared =
      controller::PrepareJob({.load = {.path = asked->recipe,
                                       .overrides = asked->overrides,
                                       .strict = asked->strict,
                                       .environment = EnvironmentVariable,
                                       .unset_variable = recipe::Severity::kError,
                                       .not_trainable = recipe::Severity::kError},
                              .nodes = 1,
                              .ranks_per_node = asked->ranks,
                              .job_id = "am-" + RandomBase32(10),
                              .cores = CoresOfThisProcess(),
                              .fresh = asked->fresh},
                             *cluster);
  bool terminal = &context.out == &std::cout && isatty(STDOUT_FILENO) && isatty(STDERR_FILENO);
  Tell(context.err, prepared.diagnostics);
  if (!prepared.spec) return kExitUsage;
  controller::JobSpec& job = *prepared.spec;

  RunJobOptions options{.state_dir = StateDir(*asked),
                        .runtime_dir = Getenv("XDG_RUNTIME_DIR"),
                        .working_directory = WorkingDirectory(),
                        .cores = CoresOfThisProcess(),
                        .live_width = TerminalWidth()};
  if (!Getenv("TMPDIR").empty()) options.temporary_dir = Getenv("TMPDIR");
  for (char** entry = environ; *entry != nullptr; ++entry) options.environment.emplace_back(*entry);
  auto program = agent::FindRankProgram();
  if (!program.ok()) return Fail(context, program.status().message());
  options.rank_program = *program;
  std::string logs = options.state_dir + "/jobs/" + job.id;
  if (absl::Status status = MakeDirectories(logs, 0700); !status.ok()) {
    return Fail(context, absl::StrCat(status.message(), "; choose another with --state-dir"));
  }

  ProgressOutput output(context.out, context.err,
                        {.live = terminal, .lines_are_in = job.checkpoint_dir + "/training.jsonl"});
  output.Message(absl::StrCat("amctl: job ", job.id, ", ", job.world_size,
                              job.world_size == 1 ? " rank" : " ranks", ", logs in ", logs));
  int status = RunJob(job, options, signals, Progress(job.total_steps), output);
  if (!output.Close()) std::_Exit(status);
  return status;
}

}  // namespace

const Command kRunCommand = {
    .name = "run",
    .summary = "train a recipe on this machine",
    .usage = "run RECIPE [options] [overrides]",
    .about =
        "Checks the recipe, starts its ranks on this machine, keeps them alive, and leaves "
        "checkpoints behind.\nStep lines go to standard output, messages to standard error.",
    .options = kOptions,
    .overrides = true,
    .notes =
        R"(A rank that dies is noticed at once and all are restarted from the last complete checkpoint, at most
restart.max_restarts times. Ctrl-C, TERM and USR1: save at the next step and leave; a second one
shortens the time for that, a third takes none.

Exit status: 0 done, 1 the job failed, 2 usage, recipe or data, 6 infrastructure failed and retries
were used up, 75 saved and left (TERM, USR1), 130 saved and left (Ctrl-C).)",
    .examples =
        "  amctl run configs/recipes/smollm2_lora.yaml --nproc-per-node 2\n"
        "  amctl run recipe.yaml --step_scheduler.max_steps=100 --optimizer.lr 1e-4\n"
        "  amctl run recipe.yaml --peft- --checkpoint.checkpoint_dir=full",
    .run = RunRun,
};

}  // namespace am::cli

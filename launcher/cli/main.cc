// amctl: picks the command and says what there is. Each command is a file of its own (command.h).
#include <fcntl.h>

#include <array>
#include <csignal>
#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/exit_status.h"
#include "common/log.h"
#include "launcher/cli/command.h"
#include "launcher/recipe/suggest.h"

namespace am::cli {
namespace {

struct Command {
  std::string_view name;
  std::string_view summary;
  std::string_view help;
  int (*run)(CommandContext&);
};

constexpr Command kCommands[] = {
    {"run", "train a recipe on this machine",
     R"(usage: amctl run RECIPE [options] [overrides]

Checks the recipe, starts its ranks on this machine, keeps them alive, and leaves checkpoints behind.
Step lines go to standard output, messages to standard error.

  --nproc-per-node N   ranks to start (a rank for each GPU; one where there is none)
  --cluster C          local, another built-in name, or a file (local)
  --fresh              begin anew, even where a checkpoint could be resumed
  --strict             warnings are errors
  --state-dir DIR      where logs go ($XDG_STATE_HOME/amctl)
  --SECTION.KEY=VALUE  lay a value over the recipe; also --SECTION.KEY VALUE and SECTION.KEY=VALUE;
                       null sets null, --SECTION.KEY- takes a key out

A rank that dies is noticed at once and all are restarted from the last complete checkpoint, at most
restart.max_restarts times. Ctrl-C, TERM and USR1: save at the next step and leave; a second one
shortens the time for that, a third takes none.

Exit status: 0 done, 1 the job failed, 2 usage, recipe or data, 6 infrastructure failed and retries
were used up, 75 saved and left (TERM, USR1), 130 saved and left (Ctrl-C).

Examples:
  amctl run configs/recipes/smollm2_lora.yaml --nproc-per-node 2
  amctl run recipe.yaml --step_scheduler.max_steps=100 --optimizer.lr 1e-4
  amctl run recipe.yaml --peft- --checkpoint.checkpoint_dir=full
)",
     RunRun},
    {"validate", "check recipes and say what is wrong, and where",
     R"(usage: amctl validate RECIPE... [options] [overrides]

Checks recipes without starting anything: keys, types, and what they come to. Exit status 0 when there is
nothing but warnings, 2 when there is an error.

  --cluster C     check the layout against this cluster: local, another built-in name, or a file
  --nodes N       on so many of its nodes
  --check-paths   the model, the data and every variable have to be there
  --json          {"diagnostics": [{"file", "line", "column", "severity", "key", "message", "hint"}]}
  --strict        warnings are errors

Example:
  amctl validate configs/recipes/*.yaml --strict
)",
     RunValidate},
    {"plan", "show how a recipe is laid out, and why",
     R"(usage: amctl plan RECIPE [--cluster C] [--nodes N] [--gpus-per-node N] [--json] [overrides]

Lays a recipe out on a cluster without starting anything: layout, batch arithmetic, and the reason for each.

  --cluster C         local, another built-in name, or a file (local)
  --nodes N           on so many of its nodes
  --gpus-per-node N   use so many GPUs of each
  --json              one object, for programs

Example:
  amctl plan recipe.yaml --cluster dgx-h100 --nodes 2
)",
     RunPlan},
#ifdef AMCTL_HAVE_TEXT
    {"tokenize", "see a model's tokenizer and chat template at work",
     R"(usage: amctl tokenize DIR [--chat | --render | --decode] [options]

Reads JSON lines, writes JSON lines. DIR is a Hugging Face model directory.

  (nothing)   a JSON string a line in, an array of ids a line out
  --chat      an array of messages a line in; the chat template is applied; ids out
  --render    the same, the rendered text out
  --decode    an array of ids a line in, the text out

  --no-special-tokens      do not add those of the model around a text
  --add-generation-prompt  end a rendered chat with the beginning of an answer
  --skip-special-tokens    leave them out when decoding
  --lossy                  replace bytes that are not UTF-8 instead of refusing them

Example:
  echo '"Hello, world"' | amctl tokenize models/SmolLM2-135M-Instruct
)",
     RunTokenize},
#endif
    {"version", "print the version", "usage: amctl version\n\nPrints the version of amctl.\n",
     RunVersion},
};

constexpr char kTopHelp[] =
    "usage: amctl COMMAND [arguments]\n\n"
    "Fine-tunes language models from one YAML recipe: checks it, lays it out, runs it, keeps it "
    "alive.\n\n";

void PrintHelp(std::ostream& out) {
  out << kTopHelp;
  for (const Command& command : kCommands) {
    out << "  " << command.name << std::string(12 - command.name.size(), ' ') << command.summary
        << '\n';
  }
  out << "  help        this, or `amctl help COMMAND`\n\n"
         "Example: amctl run recipe.yaml --nproc-per-node 2\n";
}

const Command* Find(std::string_view name) {
  for (const Command& command : kCommands) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

int UnknownCommand(std::string_view name, std::ostream& err) {
  std::vector<std::string_view> names = {"help"};
  for (const Command& command : kCommands) names.push_back(command.name);
  err << "amctl: unknown command '" << name << "'; " << recipe::Suggest(name, names)
      << " (amctl help)\n";
  return kExitUsage;
}

int Help(std::span<const std::string> words) {
  if (words.empty()) return PrintHelp(std::cout), kExitDone;
  if (words.front() == "help") return PrintHelp(std::cout), kExitDone;
  const Command* command = Find(words.front());
  if (command == nullptr) return UnknownCommand(words.front(), std::cerr);
  std::cout << command->help;
  return kExitDone;
}

int Main(std::vector<std::string> words) {
  if (words.empty()) return PrintHelp(std::cerr), kExitUsage;
  std::string name = words.front();
  words.erase(words.begin());
  if (name == "help" || name == "--help" || name == "-h") return Help(words);
  if (name == "--version") name = "version";
  const Command* command = Find(name);
  if (command == nullptr) return UnknownCommand(name, std::cerr);
  for (const std::string& word : words) {
    if (word == "--help" || word == "-h") return std::cout << command->help, kExitDone;
  }
  CommandContext context{std::move(words), std::cin, std::cout, std::cerr};
  return command->run(context);
}

}  // namespace
}  // namespace am::cli

int main(int argc, char** argv) {
  // Closed standard descriptors would be taken by the first files that we open, and be written to.
  for (int fd = 0; fd <= 2; ++fd) {
    if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd) return am::kExitUsage;
  }
  std::signal(SIGPIPE, SIG_IGN);  // a reader that is gone shows as a failed write, which says where
  am::InitLogFromEnvironment();
  return am::cli::Main({argv + 1, argv + argc});
}

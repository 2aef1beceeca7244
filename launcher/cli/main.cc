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

const Command* const kCommands[] = {
    &kRunCommand,      &kValidateCommand, &kPlanCommand,     &kPrintCommand,
    &kExplainCommand,  &kSchemaCommand,
#ifdef AMCTL_HAVE_TEXT
    &kTokenizeCommand,
#endif
    &kSubmitCommand,   &kGetCommand,      &kDescribeCommand, &kEventsCommand,
    &kLogsCommand,     &kWaitCommand,     &kCancelCommand,   &kNodesCommand,
    &kDrainCommand,    &kUndrainCommand,  &kVersionCommand,
};

constexpr char kTopHelp[] =
    "usage: amctl COMMAND [arguments]\n\n"
    "Fine-tunes language models from one YAML recipe: checks it, lays it out, runs it, keeps it "
    "alive.\n\n";

void PrintHelp(std::ostream& out) {
  out << kTopHelp;
  for (const Command* command : kCommands) {
    out << "  " << command->name << std::string(12 - command->name.size(), ' ') << command->summary
        << '\n';
  }
  out << "  help        this, or `amctl help COMMAND`\n\n"
         "Example: amctl run recipe.yaml --nproc-per-node 2\n";
}

const Command* Find(std::string_view name) {
  for (const Command* command : kCommands) {
    if (command->name == name) return command;
  }
  return nullptr;
}

int UnknownCommand(std::string_view name, std::ostream& err) {
  std::vector<std::string_view> names = {"help"};
  for (const Command* command : kCommands) names.push_back(command->name);
  err << "amctl: unknown command '" << name << "'; " << recipe::Suggest(name, names)
      << " (amctl help)\n";
  return kExitUsage;
}

int Help(std::span<const std::string> words) {
  if (words.empty()) return PrintHelp(std::cout), kExitDone;
  if (words.front() == "help") return PrintHelp(std::cout), kExitDone;
  const Command* command = Find(words.front());
  if (command == nullptr) return UnknownCommand(words.front(), std::cerr);
  std::cout << HelpText(*command);
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
    if (word == "--help" || word == "-h") return std::cout << HelpText(*command), kExitDone;
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

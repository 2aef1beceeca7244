#include <ostream>

#include "common/exit_status.h"
#include "launcher/cli/command.h"

namespace am::cli {

namespace {

int RunVersion(CommandContext& context) {
  if (!context.args.empty()) {
    context.err << "amctl version: takes no arguments, got " << context.args[0] << '\n';
    return kExitUsage;
  }
  context.out << "amctl " << AMCTL_VERSION << '\n';
  return kExitDone;
}

}  // namespace

const Command kVersionCommand = {.name = "version",
                                 .summary = "print the version",
                                 .usage = "version",
                                 .about = "Prints the version of amctl.",
                                 .run = RunVersion};

}  // namespace am::cli

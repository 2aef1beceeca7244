// The commands of amctl: one file each, a function from arguments and streams to an exit status (common/exit_status.h).
// Data goes to `out`, messages to `err`.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace am::cli {

struct CommandContext {
  std::vector<std::string> args;  // after the command's name
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
};

int RunRun(CommandContext& context);       // run.cc
int RunValidate(CommandContext& context);  // validate.cc
int RunPlan(CommandContext& context);      // plan.cc
int RunTokenize(CommandContext& context);  // tokenize.cc
int RunVersion(CommandContext& context);   // version.cc

}  // namespace am::cli

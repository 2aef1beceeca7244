// A command of amctl, as data: its options are a table, from which the words are split (words.h)
// and the help is printed. One file each; `run` takes arguments and streams to an exit status
// (common/exit_status.h). Data goes to `out`, messages to `err`.
#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace am::cli {

struct CommandContext {
  std::vector<std::string> args;  // after the command's name
  std::istream& in;
  std::ostream& out;
  std::ostream& err;
};

struct Option {
  std::string_view name;        // without dashes; underscores count as dashes
  std::string_view value = "";  // what its value is called: "N"; empty: a flag
  std::string_view help = "";
  std::string_view also = "";  // another name that it has; of one letter: -f
};

struct Command {
  std::string_view name;
  std::string_view summary;  // half a line, for the list of commands
  std::string_view usage;    // what follows `amctl `
  std::string_view about;    // a paragraph, lines below 100 columns
  std::span<const Option> options = {};
  bool overrides = false;       // values of the recipe may be laid over it
  std::string_view notes = "";  // after the options
  std::string_view examples = "";
  int (*run)(CommandContext&) = nullptr;
};

extern const Command kRunCommand;       // run.cc
extern const Command kValidateCommand;  // validate.cc
extern const Command kPlanCommand;      // plan.cc
extern const Command kPrintCommand;     // print.cc
extern const Command kExplainCommand;   // explain.cc
extern const Command kSchemaCommand;    // schema.cc
extern const Command kTokenizeCommand;  // tokenize.cc
extern const Command kVersionCommand;   // version.cc

// Of the controller.
extern const Command kSubmitCommand;    // submit.cc
extern const Command kGetCommand;       // get.cc
extern const Command kDescribeCommand;  // describe.cc
extern const Command kEventsCommand;    // events.cc
extern const Command kLogsCommand;      // logs.cc
extern const Command kCancelCommand;    // cancel.cc
extern const Command kWaitCommand;      // wait.cc
extern const Command kNodesCommand;     // get.cc
extern const Command kDrainCommand;     // drain.cc
extern const Command kUndrainCommand;   // drain.cc

// Options that several commands have.
inline constexpr Option kClusterOption = {
    "cluster", "C", "lay the recipe out on it: local, another built-in name, or a file"};
inline constexpr Option kNodesOption = {"nodes", "N", "on so many of its nodes"};
inline constexpr Option kGpusPerNodeOption = {"gpus-per-node", "N", "use so many GPUs of each node",
                                              "nproc-per-node"};
inline constexpr Option kStrictOption = {"strict", "", "warnings are errors"};

std::string HelpText(const Command& command);

}  // namespace am::cli

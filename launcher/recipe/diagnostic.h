// Diagnostic: one thing to say about a recipe or a plan, where it stands, and what to do about it.
//
// Every stage between the YAML file and the rank spec (load, plan, make_rank_spec) appends to one
// list, and the command prints it once: `RenderText(diagnostics, {.color = true})`. Plain data, no
// thread.
//   recipe.yaml:14:12: error: distributed.tp_size: 3 does not divide num_attention_heads 32; use 1,
//   2, 4, 8, 16 or 32
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace am::recipe {

enum class Severity { kInfo, kWarning, kError };

std::string_view Name(Severity severity);

// Where a value was written. Line and column count from 1; 0 means that the place has none: an
// override on the command line
// (`file` is then the override itself) or a default.
struct Place {
  std::string file;
  int line = 0;
  int column = 0;

  bool known() const { return !file.empty(); }
};

// "recipe.yaml:14:12", "--distributed.tp_size=3" or "".
std::string ToString(const Place& place);

struct Diagnostic {
  Severity severity = Severity::kError;
  Place place;
  std::string key;      // dotted, e.g. "distributed.tp_size"; empty where none is meant
  std::string message;  // what was read and what is wrong with it
  std::string hint;     // the cure; empty where the message is enough
  std::string excerpt;  // the source line, for syntax errors and on a terminal; a caret is drawn
                        // under place.column
};

using Diagnostics = std::vector<Diagnostic>;

bool HasErrors(const Diagnostics& diagnostics);
// What `--strict` does.
void TurnWarningsIntoErrors(Diagnostics& diagnostics);

struct RenderOptions {
  bool color = false;
  Severity least = Severity::kWarning;  // what is less severe is left out
};

// One line each, in the order of the file, errors of the command line last; ends with a newline
// unless empty.
std::string RenderText(const Diagnostics& diagnostics, const RenderOptions& options = {});
// [{"file","line","column","severity","key","message","hint"}]; line and column are null where
// there are none.
nlohmann::json ToJson(const Diagnostics& diagnostics);

}  // namespace am::recipe

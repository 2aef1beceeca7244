// TokenizeStream: JSON lines in, JSON lines out: what `am-tokenize` and `amctl tokenize` both are.
//
//   DIR                one JSON string a line in, one JSON array of ids a line out
//   DIR --chat         one JSON array of messages (or {"messages": .., "tools": ..}) a line in, ids
//   out DIR --render       the same in, the rendered text as a JSON string out DIR --decode one
//   JSON array of ids a line in, one JSON string out
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace am::text {

// `args` follow the program's (or the command's) name. Returns an exit status
// (common/exit_status.h); data goes to `out`, messages to `err`, each naming the line it is about.
int RunTokenizeStream(const std::vector<std::string>& args, std::istream& in, std::ostream& out,
                      std::ostream& err);

}  // namespace am::text

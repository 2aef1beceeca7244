// amctl tokenize: see worker/text/tokenize_stream.h.
#include "launcher/cli/command.h"
#include "worker/text/tokenize_stream.h"

namespace am::cli {

int RunTokenize(CommandContext& context) {
  return text::RunTokenizeStream(context.args, context.in, context.out, context.err);
}

}  // namespace am::cli

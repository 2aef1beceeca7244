// amctl tokenize: see worker/text/tokenize_stream.h.
#include "launcher/cli/command.h"
#include "worker/text/tokenize_stream.h"

namespace am::cli {

namespace {

// The words are split by am-tokenize's own code; these are for the help.
constexpr Option kOptions[] = {
    {"chat", "", "an array of messages a line in; the chat template is applied; ids out"},
    {"render", "", "the same, the rendered text out"},
    {"decode", "", "an array of ids a line in, the text out"},
    {"no-special-tokens", "", "do not add those of the model around a text"},
    {"add-generation-prompt", "", "end a rendered chat with the beginning of an answer"},
    {"skip-special-tokens", "", "leave them out when decoding"},
    {"lossy", "", "replace bytes that are not UTF-8 instead of refusing them"},
};

int RunTokenize(CommandContext& context) {
  return text::RunTokenizeStream(context.args, context.in, context.out, context.err);
}

}  // namespace

const Command kTokenizeCommand = {
    .name = "tokenize",
    .summary = "see a model's tokenizer and chat template at work",
    .usage = "tokenize DIR [--chat | --render | --decode] [options]",
    .about =
        "Reads JSON lines, writes JSON lines: a JSON string a line in, an array of ids a line "
        "out. DIR is a\nHugging Face model directory.",
    .options = kOptions,
    .examples = "  echo '\"Hello, world\"' | amctl tokenize models/SmolLM2-135M-Instruct",
    .run = RunTokenize,
};

}  // namespace am::cli

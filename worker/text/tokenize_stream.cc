#include "worker/text/tokenize_stream.h"

#include <charconv>
#include <istream>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "common/error.h"
#include "common/exit_status.h"
#include "worker/text/chat_template.h"
#include "worker/text/tokenizer.h"
#include "worker/text/utf8.h"

namespace am::text {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kUsage =
    "usage: tokenize DIR [--chat | --render | --decode] [option...]   JSON lines in, JSON lines "
    "out\n"
    "  (no mode)               a JSON string a line; prints its token ids as a JSON array\n"
    "  --chat                  an array of messages, or {\"messages\": .., \"tools\": ..}, a line; "
    "applies the model's\n"
    "                          chat template and prints the ids\n"
    "  --render                the same, but prints the rendered text as a JSON string\n"
    "  --decode                an array of ids a line; prints the text as a JSON string\n"
    "  --no-special-tokens     do not add what the tokenizer puts around a text (bos, eos)\n"
    "  --add-generation-prompt end a rendered chat with the beginning of the assistant's turn\n"
    "  --skip-special-tokens   leave special tokens out of decoded text\n"
    "  --lossy                 read invalid UTF-8 as U+FFFD instead of refusing the line\n";

enum class Mode { kEncode, kChat, kRender, kDecode };

struct Options {
  std::string dir;
  Mode mode = Mode::kEncode;
  bool special_tokens = true, generation_prompt = false, skip_special_tokens = false, lossy = false;
  bool help = false;
};

Options ParseArguments(const std::vector<std::string>& args) {
  Options options;
  bool mode_given = false;
  for (const std::string& arg : args) {
    const auto mode = [&](Mode m) {
      if (mode_given && options.mode != m)
        throw UserError("--chat, --render and --decode exclude one another");
      mode_given = true;
      options.mode = m;
    };
    if (arg == "--chat") {
      mode(Mode::kChat);
    } else if (arg == "--render") {
      mode(Mode::kRender);
    } else if (arg == "--decode") {
      mode(Mode::kDecode);
    } else if (arg == "--no-special-tokens") {
      options.special_tokens = false;
    } else if (arg == "--add-generation-prompt") {
      options.generation_prompt = true;
    } else if (arg == "--skip-special-tokens") {
      options.skip_special_tokens = true;
    } else if (arg == "--lossy") {
      options.lossy = true;
    } else if (arg == "--help" || arg == "-h") {
      options.help = true;
    } else if (arg.starts_with("-") && arg != "-") {
      throw UserError("unknown option `" + arg + "`");
    } else if (options.dir.empty()) {
      options.dir = arg;
    } else {
      throw UserError("more than one model directory: `" + options.dir + "` and `" + arg + "`");
    }
  }
  if (options.dir.empty() && !options.help) throw UserError("no model directory is given");
  return options;
}

class Stream {
 public:
  explicit Stream(const Options& options)
      : options_(options), tokenizer_(Tokenizer::Load(options.dir)) {
    if (options.mode != Mode::kChat && options.mode != Mode::kRender) return;
    if (tokenizer_.chat_template().empty()) {
      throw UserError(
          options.dir +
          ": error: the model has no chat template; without --chat text can be encoded as it is");
    }
    template_.emplace(ChatTemplate::Parse(tokenizer_.chat_template()));
  }

  void Line(std::string& line, std::string& out) const {
    if (const auto bad = FindInvalidUtf8(line)) {
      if (!options_.lossy) {
        throw UserError("not UTF-8: invalid byte at column " + std::to_string(*bad + 1) +
                        "; --lossy reads it as U+FFFD");
      }
      line = ReplaceInvalidUtf8(line);
    }
    const Json json = Json::parse(line);
    switch (options_.mode) {
      case Mode::kEncode:
        if (!json.is_string()) throw UserError(Expected("a JSON string", json));
        return PrintIds(json.get_ref<const std::string&>(), options_.special_tokens, out);
      case Mode::kChat:
        return PrintIds(Render(json), false, out);  // the template itself writes the special tokens
      case Mode::kRender:
        return PrintText(Render(json), out);
      case Mode::kDecode:
        return PrintText(tokenizer_.Decode(ReadIds(json), options_.skip_special_tokens), out);
    }
  }

 private:
  static std::string Expected(const char* what, const Json& found) {
    return std::string("expected ") + what + ", found " + found.type_name();
  }

  static std::vector<int32_t> ReadIds(const Json& json) {
    if (!json.is_array()) throw UserError(Expected("a JSON array of ids", json));
    std::vector<int32_t> ids;
    for (const Json& id : json) {
      if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > INT32_MAX) {
        throw UserError("expected a token id, found " + id.dump());
      }
      ids.push_back(id.get<int32_t>());
    }
    return ids;
  }

  std::string Render(const Json& json) const {
    RenderRequest request;
    request.add_generation_prompt = options_.generation_prompt;
    for (const auto& [name, text] : tokenizer_.special_tokens()) request.variables[name] = text;
    if (json.is_array()) {
      request.messages = json;
    } else if (json.is_object() && json.contains("messages")) {
      for (const auto& [key, value] : json.items()) {
        if (key == "messages") {
          request.messages = value;
        } else if (key == "tools") {
          request.tools = value;
        } else if (key == "add_generation_prompt" && value.is_boolean()) {
          request.add_generation_prompt = value.get<bool>();
        } else {
          request.variables[key] = value;
        }
      }
    } else {
      throw UserError(Expected("an array of messages or an object with \"messages\"", json));
    }
    return template_->Render(request).text;
  }

  void PrintIds(const std::string& text, bool special_tokens, std::string& out) const {
    out += '[';
    char buffer[16];
    bool first = true;
    for (const int32_t id : tokenizer_.Encode(text, {.add_special_tokens = special_tokens})) {
      if (!first) out += ',';
      first = false;
      out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, id).ptr);
    }
    out += ']';
  }

  static void PrintText(const std::string& text, std::string& out) { out += Json(text).dump(); }

  const Options& options_;
  Tokenizer tokenizer_;
  std::optional<ChatTemplate> template_;
};

int StatusOf(const Error& error) {
  return error.kind() == ErrorKind::kUser ? kExitUsage : kExitInfrastructure;
}

}  // namespace

int RunTokenizeStream(const std::vector<std::string>& args, std::istream& in, std::ostream& out,
                      std::ostream& err) {
  Options options;
  try {
    options = ParseArguments(args);
  } catch (const Error& error) {
    err << "error: " << error.what() << "\n" << kUsage;
    return kExitUsage;
  }
  if (options.help) {
    out << kUsage;
    return kExitDone;
  }
  size_t number = 0;
  try {
    const Stream stream(options);
    std::string line, result;
    while (std::getline(in, line)) {
      ++number;
      if (line.empty() || line == "\r") continue;
      result.clear();
      stream.Line(line, result);
      result += '\n';
      out << result;
    }
    out.flush();
    if (!out) throw IoError("the output cannot be written");
    return kExitDone;
  } catch (const Error& error) {
    out.flush();
    err << (number > 0 ? "line " + std::to_string(number) + ": error: " : "") << error.what()
        << "\n";
    return StatusOf(error);
  } catch (const nlohmann::json::exception& error) {
    out.flush();
    err << "line " << number << ": error: not JSON: " << error.what() << "\n";
    return kExitUsage;
  }
}

}  // namespace am::text

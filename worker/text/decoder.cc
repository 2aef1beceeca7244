#include "worker/text/decoder.h"

#include <charconv>
#include <optional>

#include "worker/text/byte_level.h"
#include "worker/text/json_fields.h"
#include "worker/text/patterns.h"
#include "worker/text/utf8.h"

namespace am::text {
namespace {

std::optional<unsigned char> ByteOf(const std::string& token) {  // <0x0A>
  if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
  unsigned char byte = 0;
  const char* begin = token.data() + 3;
  const auto [end, error] = std::from_chars(begin, begin + 2, byte, 16);
  return error == std::errc() && end == begin + 2 ? std::optional(byte) : std::nullopt;
}

void ReplaceEvery(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// The clean-up of English spacing that WordPiece tokenizers ask for.
void CleanUp(std::string& text) {
  constexpr std::pair<const char*, const char*> kRules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
  for (const auto& [from, to] : kRules) ReplaceEvery(text, from, to);
}

Decoder::Step ByteLevel() {
  return [](std::vector<std::string>& tokens) {
    std::string bytes;
    for (const std::string& token : tokens) {
      if (!AppendFromByteLevel(token, bytes)) bytes += token;
    }
    tokens.assign(1, ReplaceInvalidUtf8(bytes));
  };
}

Decoder::Step WordPiece(std::string prefix, bool cleanup) {
  return [=](std::vector<std::string>& tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::string& token = tokens[i];
      if (i > 0) token = token.starts_with(prefix) ? token.substr(prefix.size()) : " " + token;
      if (cleanup) CleanUp(token);
    }
  };
}

Decoder::Step Metaspace(const nlohmann::json& section) {
  const std::string replacement = StringField(section, "replacement");
  const bool prepends =
      BoolField(section, "add_prefix_space", true) &&
      (!section.contains("prepend_scheme") || StringField(section, "prepend_scheme") != "never");
  return [=](std::vector<std::string>& tokens) {
    for (size_t i = 0; i < tokens.size(); ++i)
      ReplaceEvery(tokens[i], replacement, i == 0 && prepends ? "" : " ");
  };
}

}  // namespace

Decoder::Step Decoder::Replace(std::string from, std::string to) {
  return [=](std::vector<std::string>& tokens) {
    for (std::string& token : tokens) ReplaceEvery(token, from, to);
  };
}

Decoder::Step Decoder::ByteFallback() {
  return [](std::vector<std::string>& tokens) {
    std::vector<std::string> out;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      if (FindInvalidUtf8(bytes)) {
        out.insert(out.end(), bytes.size(), "\xEF\xBF\xBD");
      } else {
        out.push_back(bytes);
      }
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const auto byte = ByteOf(token)) {
        bytes.push_back(static_cast<char>(*byte));
      } else {
        flush();
        out.push_back(std::move(token));
      }
    }
    flush();
    tokens = std::move(out);
  };
}

Decoder::Step Decoder::Fuse() {
  return [](std::vector<std::string>& tokens) {
    std::string all;
    for (const std::string& token : tokens) all += token;
    tokens.assign(1, std::move(all));
  };
}

Decoder::Step Decoder::Strip(char32_t content, size_t start, size_t stop) {
  std::string unit;
  AppendUtf8(unit, content);
  return [=](std::vector<std::string>& tokens) {
    for (std::string& token : tokens) {
      std::string_view rest = token;
      for (size_t i = 0; i < start && rest.starts_with(unit); ++i) rest.remove_prefix(unit.size());
      for (size_t i = 0; i < stop && rest.ends_with(unit); ++i) rest.remove_suffix(unit.size());
      token = std::string(rest);
    }
  };
}

Decoder Decoder::Parse(const nlohmann::json& section) {
  Decoder decoder;
  if (section.is_null()) {
    decoder.Add([](std::vector<std::string>& tokens) {
      for (size_t i = 1; i < tokens.size(); ++i) tokens[i].insert(0, " ");
    });
  } else {
    decoder.ParseInto(section);
  }
  return decoder;
}

void Decoder::ParseInto(const nlohmann::json& section) {
  const std::string type = StringField(section, "type");
  if (type == "Sequence") {
    for (const nlohmann::json& inner : ArrayField(section, "decoders")) ParseInto(inner);
  } else if (type == "ByteLevel") {
    Add(ByteLevel());
  } else if (type == "ByteFallback") {
    Add(ByteFallback());
  } else if (type == "Fuse") {
    Add(Fuse());
  } else if (type == "Replace") {
    Add([regex = ParsePattern(section),
         content = StringField(section, "content")](std::vector<std::string>& tokens) {
      for (std::string& token : tokens) ReplaceAll(regex, content, token);
    });
  } else if (type == "Strip") {
    const std::string content = StringField(section, "content");
    const int64_t start = IntField(section, "start"), stop = IntField(section, "stop");
    size_t at = 0;
    if (content.empty() || start < 0 || stop < 0)
      throw UserError("Strip: content, start and stop must be given");
    Add(Strip(NextCodePoint(content, at), static_cast<size_t>(start), static_cast<size_t>(stop)));
  } else if (type == "Metaspace") {
    Add(Metaspace(section));
  } else if (type == "WordPiece") {
    Add(WordPiece(StringField(section, "prefix"), BoolField(section, "cleanup", true)));
  } else if (type == "BPEDecoder") {
    Add([suffix = StringField(section, "suffix")](std::vector<std::string>& tokens) {
      for (size_t i = 0; i < tokens.size(); ++i)
        ReplaceEvery(tokens[i], suffix, i + 1 == tokens.size() ? "" : " ");
    });
  } else {
    throw UserError(
        "the type `" + type +
        "` is not understood; understood: Sequence, ByteLevel, ByteFallback, Fuse, Replace, Strip, "
        "Metaspace, WordPiece, BPEDecoder");
  }
}

std::string Decoder::Decode(std::vector<std::string> tokens) const {
  for (const Step& step : steps_) step(tokens);
  std::string all;
  for (const std::string& token : tokens) all += token;
  return all;
}

}  // namespace am::text

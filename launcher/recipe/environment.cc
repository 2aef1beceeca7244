#include "launcher/recipe/environment.h"

#include <cctype>

namespace am::recipe {
namespace {

bool BeginsName(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool ContinuesName(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
}

// The end of the name that begins at `at`; `at` itself where none does. A dot at the end belongs to
// the sentence.
size_t EndOfName(std::string_view text, size_t at) {
  if (at >= text.size() || !BeginsName(text[at])) return at;
  size_t end = at + 1;
  while (end < text.size() && ContinuesName(text[end])) ++end;
  while (end > at && text[end - 1] == '.') --end;
  return end;
}

std::string_view Strip(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) {
    text.remove_prefix(1);
  }
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) {
    text.remove_suffix(1);
  }
  return text;
}

struct Token {
  size_t end = 0;  // behind it
  std::string name;
  std::optional<std::string> fallback;
};

// The token whose `$` stands at `at`; nothing where the `$` is only a `$`.
std::optional<Token> ReadToken(std::string_view text, size_t at) {
  if (at + 1 < text.size() && text[at + 1] == '{') {
    size_t close = text.find('}', at);
    if (close == std::string_view::npos) return std::nullopt;
    std::string_view inside = text.substr(at + 2, close - at - 2);
    if (inside.starts_with("oc.env:")) inside.remove_prefix(7);
    size_t comma = inside.find(',');
    std::string_view name = Strip(inside.substr(0, comma));
    if (name.empty() || EndOfName(name, 0) != name.size()) return std::nullopt;
    Token token{.end = close + 1, .name = std::string(name)};
    if (comma != std::string_view::npos) token.fallback = Strip(inside.substr(comma + 1));
    return token;
  }
  size_t end = EndOfName(text, at + 1);
  if (end == at + 1) return std::nullopt;
  return Token{.end = end, .name = std::string(text.substr(at + 1, end - at - 1))};
}

// What is wrong with a `${` that is no token, and what to write.
void ExplainMalformed(std::string_view text, size_t at, Expansion& out) {
  if (!out.malformed.empty()) return;
  size_t close = text.find('}', at);
  if (close == std::string_view::npos) {
    out.malformed = "a ${ that is never closed";
    out.hint = "close it with }, or write $${ for the characters themselves";
    return;
  }
  std::string_view inside = text.substr(at + 2, close - at - 2);
  out.malformed = std::string(text.substr(at, close + 1 - at)) + " names no environment variable";
  out.hint = "write ${NAME} or ${NAME,default}";
  size_t end = EndOfName(inside, 0);
  std::string_view name = inside.substr(0, end), rest = inside.substr(end);
  if (rest.starts_with(":-") || rest.starts_with("-") || rest.starts_with(":=")) {
    size_t skip = rest.find_first_of("-=") + 1;
    out.hint = "write ${" + std::string(name) + "," + std::string(rest.substr(skip)) + "}";
  } else if (name == "env" && rest.starts_with(":")) {
    out.hint = "write ${oc.env:" + std::string(rest.substr(1)) + "}";
  } else if (!name.empty() && rest.starts_with(":")) {
    out.hint = "of resolvers there is oc.env alone: ${oc.env:NAME,default}";
  }
}

}  // namespace

Expansion Expand(std::string_view text, const Environment& environment) {
  Expansion out;
  for (size_t at = 0; at < text.size();) {
    if (text[at] != '$') {
      out.text += text[at++];
      continue;
    }
    if (at + 1 < text.size() && text[at + 1] == '$') {
      out.text += '$';
      at += 2;
      continue;
    }
    std::optional<Token> token = ReadToken(text, at);
    if (!token) {
      if (text.substr(at).starts_with("${")) ExplainMalformed(text, at, out);
      out.text += text[at++];
      continue;
    }
    out.used = true;
    if (std::optional<std::string> value = environment(token->name)) {
      out.text += *value;
    } else if (token->fallback) {
      out.text += *token->fallback;
    } else {
      if (!out.unset) out.unset = token->name;
      out.text += text.substr(at, token->end - at);
    }
    at = token->end;
  }
  return out;
}

}  // namespace am::recipe

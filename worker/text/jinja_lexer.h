// Lexer of the template language: source text to tokens, with jinja2's rules under trim_blocks and
// lstrip_blocks.
//
// White space control (`-`, `+`, the newline after a block, the indentation before one), comments
// and raw blocks are all dealt with here; the parser sees data, `{{`, `}}`, `{%`, `%}` and the
// tokens between them.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace am::text::jinja {

// A template that does not parse; ChatTemplate turns it into am::Error.
class SyntaxFailure : public std::runtime_error {
 public:
  SyntaxFailure(int line, const std::string& message) : std::runtime_error(message), line(line) {}
  int line;
};

enum class TokenType : uint8_t {
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenType type = TokenType::kEnd;
  int line = 1;
  std::string text;  // data, name, operator; a string's value, unescaped
  int64_t integer = 0;
  double real = 0;

  bool IsName(const char* name) const { return type == TokenType::kName && text == name; }
  bool IsOperator(const char* op) const { return type == TokenType::kOperator && text == op; }
};

// `source` is valid UTF-8. The last token is kEnd.
std::vector<Token> Tokenize(const std::string& source);

}  // namespace am::text::jinja

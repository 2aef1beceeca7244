// TokenStream: what both halves of the parser read from, with jinja2's words for what they did not
// expect.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "worker/text/jinja_lexer.h"

namespace am::text::jinja {

class TokenStream {
 protected:
  explicit TokenStream(const std::string& source) : tokens_(Tokenize(source)) {}

  // One level of nesting of the template for as long as it lives.
  struct DepthGuard {
    DepthGuard(const TokenStream& stream, int& depth, int limit) : depth(depth) {
      if (++depth > limit) {
        --depth;
        stream.Fail("the template nests deeper than " + std::to_string(limit) + " levels");
      }
    }
    ~DepthGuard() { --depth; }
    int& depth;
  };

  [[noreturn]] void Fail(const std::string& what, int line = 0) const {
    throw SyntaxFailure(line != 0 ? line : Now().line, what);
  }

  // Token stream.
  const Token& Now() const { return tokens_[at_]; }
  const Token& Ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Token Next() {
    Token token = tokens_[at_];
    if (token.type != TokenType::kEnd) ++at_;
    return token;
  }
  bool SkipName(const char* name) { return Now().IsName(name) && (Next(), true); }
  bool SkipOperator(const char* op) { return Now().IsOperator(op) && (Next(), true); }

  static std::string Describe(const Token& token) {
    switch (token.type) {
      case TokenType::kData:
        return "template data / text";
      case TokenType::kVariableBegin:
        return "begin of print statement";
      case TokenType::kVariableEnd:
        return "end of print statement";
      case TokenType::kBlockBegin:
        return "begin of statement block";
      case TokenType::kBlockEnd:
        return "end of statement block";
      case TokenType::kString:
        return "string";
      case TokenType::kInteger:
        return "integer";
      case TokenType::kFloat:
        return "float";
      case TokenType::kEnd:
        return "end of template";
      default:
        return token.text;
    }
  }

  [[noreturn]] void FailExpected(const std::string& expected) const {
    if (Now().type == TokenType::kEnd)
      Fail("unexpected end of template, expected '" + expected + "'.");
    Fail("expected token '" + expected + "', got '" + Describe(Now()) + "'");
  }
  void ExpectOperator(const char* op) {
    if (!SkipOperator(op)) FailExpected(op);
  }
  void ExpectName(const char* name) {
    if (!SkipName(name)) FailExpected(name);
  }
  void ExpectBlockEnd() {
    if (Now().type != TokenType::kBlockEnd) FailExpected("end of statement block");
    Next();
  }
  std::string ExpectAnyName() {
    if (Now().type != TokenType::kName) FailExpected("name");
    return Next().text;
  }

 private:
  std::vector<Token> tokens_;
  size_t at_ = 0;
};

}  // namespace am::text::jinja

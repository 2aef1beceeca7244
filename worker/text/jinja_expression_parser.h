// ExpressionParser: the half of the parser that reads what stands between braces, with jinja2's
// precedences.
#pragma once

#include <string>
#include <vector>

#include "worker/text/jinja_ast.h"
#include "worker/text/jinja_token_stream.h"

namespace am::text::jinja {

constexpr int kMaxParserDepth = 150;

class ExpressionParser : protected TokenStream {
 protected:
  using TokenStream::TokenStream;

  struct TupleRules {
    bool conditional = true;         // `a if b else c` may stand bare
    bool parentheses = false;        // () is an empty tuple
    const char* end_name = nullptr;  // a name that ends it
  };
  ExprPtr ParseExpression(bool conditional = true);
  // One expression, or several with commas between them.
  ExprPtr ParseTuple();
  ExprPtr ParseTuple(TupleRules rules);
  // `| f | g`: filters applied to `node`; to a block's text where it is null. `start_inline`: the
  // first has no bar.
  ExprPtr ParseFilters(ExprPtr node, bool start_inline);

  int depth_ = 0;
  int if_depth_ = 0;
  std::vector<MacroDefinition*> macros_;  // whose bodies are being parsed

 private:
  ExprPtr Make(ExprKind kind, int line, ExprPtr a = nullptr, ExprPtr b = nullptr,
               ExprPtr c = nullptr) const;
  void Deepen(Expr& expr, const Expr* child) const;
  void Push(Expr& expr, ExprPtr item) const;
  ExprPtr MakeConst(int line, Value value) const;
  ExprPtr ParseConditional();
  ExprPtr ParseOr();
  ExprPtr ParseAnd();
  ExprPtr ParseNot();
  ExprPtr ParseCompare();
  ExprPtr MakeBinary(const std::string& op, int line, ExprPtr left, ExprPtr right) const;
  ExprPtr ParseSum();
  ExprPtr ParseConcat();
  ExprPtr ParseProduct();
  ExprPtr ParsePower();
  ExprPtr ParseUnary(bool with_filter = true);
  ExprPtr ParsePrimary();
  ExprPtr ParseList(int line);
  ExprPtr ParseDict(int line);
  bool AtTupleEnd(const TupleRules& rules) const;
  ExprPtr ParsePostfix(ExprPtr node);
  ExprPtr ParseFiltersAndTests(ExprPtr node);
  ExprPtr ParseSubscript(ExprPtr node);
  ExprPtr ParseSlice();
  void ParseArguments(Expr& expr);
  ExprPtr ParseCall(ExprPtr node);
  std::string ParseDottedName();
  ExprPtr ParseTest(ExprPtr node);
};

}  // namespace am::text::jinja

#include "worker/text/jinja_expression_parser.h"

#include "worker/text/jinja_library.h"

namespace am::text::jinja {
namespace {

constexpr int kMaxExpressionDepth = 500;  // left-leaning chains like a + b + c ... count too

}  // namespace

ExprPtr ExpressionParser::Make(ExprKind kind, int line, ExprPtr a, ExprPtr b, ExprPtr c) const {
  auto expr = std::make_unique<Expr>();
  expr->kind = kind;
  expr->line = line;
  expr->a = std::move(a);
  expr->b = std::move(b);
  expr->c = std::move(c);
  for (const Expr* child : {expr->a.get(), expr->b.get(), expr->c.get()}) Deepen(*expr, child);
  return expr;
}

void ExpressionParser::Deepen(Expr& expr, const Expr* child) const {
  if (child != nullptr) expr.depth = std::max(expr.depth, child->depth + 1);
  if (expr.depth > kMaxExpressionDepth)
    Fail("an expression is too long or nests too deep", expr.line);
}

void ExpressionParser::Push(Expr& expr, ExprPtr item) const {
  Deepen(expr, item.get());
  expr.items.push_back(std::move(item));
}

ExprPtr ExpressionParser::MakeConst(int line, Value value) const {
  ExprPtr expr = Make(ExprKind::kConst, line);
  expr->value = std::move(value);
  return expr;
}

ExprPtr ExpressionParser::ParseExpression(bool conditional) {
  DepthGuard guard(*this, depth_, kMaxParserDepth);
  return conditional ? ParseConditional() : ParseOr();
}

ExprPtr ExpressionParser::ParseConditional() {
  const int line = Now().line;
  ExprPtr expr = ParseOr();
  while (SkipName("if")) {
    ExprPtr condition = ParseOr();
    ExprPtr otherwise = SkipName("else") ? ParseExpression() : nullptr;
    expr = Make(ExprKind::kConditional, line, std::move(expr), std::move(condition),
                std::move(otherwise));
  }
  return expr;
}

ExprPtr ExpressionParser::ParseOr() {
  const int line = Now().line;
  ExprPtr left = ParseAnd();
  while (SkipName("or")) left = Make(ExprKind::kOr, line, std::move(left), ParseAnd());
  return left;
}

ExprPtr ExpressionParser::ParseAnd() {
  const int line = Now().line;
  ExprPtr left = ParseNot();
  while (SkipName("and")) left = Make(ExprKind::kAnd, line, std::move(left), ParseNot());
  return left;
}

ExprPtr ExpressionParser::ParseNot() {
  if (!Now().IsName("not")) return ParseCompare();
  DepthGuard guard(*this, depth_, kMaxParserDepth);
  const int line = Next().line;
  return Make(ExprKind::kNot, line, ParseNot());
}

ExprPtr ExpressionParser::ParseCompare() {
  const int line = Now().line;
  ExprPtr left = ParseSum();
  ExprPtr compare;
  while (true) {
    std::string op;
    for (const char* candidate : {"==", "!=", "<", "<=", ">", ">="}) {
      if (Now().IsOperator(candidate)) op = candidate;
    }
    if (!op.empty()) {
      Next();
    } else if (SkipName("in")) {
      op = "in";
    } else if (Now().IsName("not") && Ahead().IsName("in")) {
      Next();
      Next();
      op = "not in";
    } else {
      break;
    }
    if (!compare) compare = Make(ExprKind::kCompare, line, std::move(left));
    compare->ops.push_back(op);
    Push(*compare, ParseSum());
  }
  return compare ? std::move(compare) : std::move(left);
}

ExprPtr ExpressionParser::MakeBinary(const std::string& op, int line, ExprPtr left,
                                     ExprPtr right) const {
  ExprPtr expr = Make(ExprKind::kBinary, line, std::move(left), std::move(right));
  expr->name = op;
  return expr;
}

ExprPtr ExpressionParser::ParseSum() {
  const int line = Now().line;
  ExprPtr left = ParseConcat();
  while (Now().IsOperator("+") || Now().IsOperator("-")) {
    const std::string op = Next().text;
    left = MakeBinary(op, line, std::move(left), ParseConcat());
  }
  return left;
}

ExprPtr ExpressionParser::ParseConcat() {
  const int line = Now().line;
  ExprPtr first = ParseProduct();
  if (!Now().IsOperator("~")) return first;
  ExprPtr concat = Make(ExprKind::kConcat, line);
  Push(*concat, std::move(first));
  while (SkipOperator("~")) Push(*concat, ParseProduct());
  return concat;
}

ExprPtr ExpressionParser::ParseProduct() {
  const int line = Now().line;
  ExprPtr left = ParsePower();
  while (Now().IsOperator("*") || Now().IsOperator("/") || Now().IsOperator("//") ||
         Now().IsOperator("%")) {
    const std::string op = Next().text;
    left = MakeBinary(op, line, std::move(left), ParsePower());
  }
  return left;
}

ExprPtr ExpressionParser::ParsePower() {
  const int line = Now().line;
  ExprPtr left = ParseUnary();
  while (SkipOperator("**")) left = MakeBinary("**", line, std::move(left), ParseUnary());
  return left;
}

ExprPtr ExpressionParser::ParseUnary(bool with_filter) {
  DepthGuard guard(*this, depth_, kMaxParserDepth);
  const int line = Now().line;
  ExprPtr node;
  if (SkipOperator("-")) {
    node = Make(ExprKind::kNegative, line, ParseUnary(false));
  } else if (SkipOperator("+")) {
    node = Make(ExprKind::kPositive, line, ParseUnary(false));
  } else {
    node = ParsePrimary();
  }
  node = ParsePostfix(std::move(node));
  return with_filter ? ParseFiltersAndTests(std::move(node)) : std::move(node);
}

ExprPtr ExpressionParser::ParsePrimary() {
  const Token token = Now();
  switch (token.type) {
    case TokenType::kName: {
      Next();
      const std::string& name = token.text;
      if (name == "true" || name == "True") return MakeConst(token.line, Value::Bool(true));
      if (name == "false" || name == "False") return MakeConst(token.line, Value::Bool(false));
      if (name == "none" || name == "None") return MakeConst(token.line, Value::None());
      for (MacroDefinition* macro : macros_) {
        macro->uses_caller |= name == "caller";
        macro->uses_kwargs |= name == "kwargs";
        macro->uses_varargs |= name == "varargs";
      }
      ExprPtr expr = Make(ExprKind::kName, token.line);
      expr->name = name;
      return expr;
    }
    case TokenType::kString: {
      std::string text;
      while (Now().type == TokenType::kString) text += Next().text;
      return MakeConst(token.line, Value::Str(std::move(text)));
    }
    case TokenType::kInteger:
      Next();
      return MakeConst(token.line, Value::Int(token.integer));
    case TokenType::kFloat:
      Next();
      return MakeConst(token.line, Value::Float(token.real));
    default:
      break;
  }
  if (SkipOperator("(")) {
    ExprPtr expr = ParseTuple({.parentheses = true});
    ExpectOperator(")");
    return expr;
  }
  if (SkipOperator("[")) return ParseList(token.line);
  if (SkipOperator("{")) return ParseDict(token.line);
  Fail("unexpected '" + Describe(token) + "'");
}

ExprPtr ExpressionParser::ParseList(int line) {
  ExprPtr list = Make(ExprKind::kList, line);
  while (!Now().IsOperator("]")) {
    if (!list->items.empty()) ExpectOperator(",");
    if (Now().IsOperator("]")) break;
    Push(*list, ParseExpression());
  }
  ExpectOperator("]");
  return list;
}

ExprPtr ExpressionParser::ParseDict(int line) {
  ExprPtr dict = Make(ExprKind::kDict, line);
  while (!Now().IsOperator("}")) {
    if (!dict->items.empty()) ExpectOperator(",");
    if (Now().IsOperator("}")) break;
    Push(*dict, ParseExpression());
    ExpectOperator(":");
    Push(*dict, ParseExpression());
  }
  ExpectOperator("}");
  return dict;
}

bool ExpressionParser::AtTupleEnd(const TupleRules& rules) const {
  return Now().type == TokenType::kVariableEnd || Now().type == TokenType::kBlockEnd ||
         Now().IsOperator(")") || (rules.end_name != nullptr && Now().IsName(rules.end_name));
}

ExprPtr ExpressionParser::ParseTuple() { return ParseTuple(TupleRules{}); }

ExprPtr ExpressionParser::ParseTuple(TupleRules rules) {
  const int line = Now().line;
  std::vector<ExprPtr> items;
  bool is_tuple = false;
  while (true) {
    if (!items.empty()) ExpectOperator(",");
    if (AtTupleEnd(rules)) break;
    items.push_back(ParseExpression(rules.conditional));
    if (!Now().IsOperator(",")) break;
    is_tuple = true;
  }
  if (!is_tuple && !items.empty()) return std::move(items[0]);
  if (!is_tuple && !rules.parentheses)
    Fail("Expected an expression, got '" + Describe(Now()) + "'");
  ExprPtr tuple = Make(ExprKind::kTuple, line);
  for (ExprPtr& item : items) Push(*tuple, std::move(item));
  return tuple;
}

ExprPtr ExpressionParser::ParsePostfix(ExprPtr node) {
  while (true) {
    if (Now().IsOperator(".") || Now().IsOperator("[")) {
      node = ParseSubscript(std::move(node));
    } else if (Now().IsOperator("(")) {
      node = ParseCall(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr ExpressionParser::ParseFiltersAndTests(ExprPtr node) {
  while (true) {
    if (Now().IsOperator("|")) {
      node = ParseFilters(std::move(node), false);
    } else if (Now().IsName("is")) {
      node = ParseTest(std::move(node));
    } else if (Now().IsOperator("(")) {
      node = ParseCall(std::move(node));
    } else {
      return node;
    }
  }
}

ExprPtr ExpressionParser::ParseSubscript(ExprPtr node) {
  const Token token = Next();
  if (token.text == ".") {
    const Token attribute = Next();
    if (attribute.type == TokenType::kName) {
      ExprPtr expr = Make(ExprKind::kAttribute, token.line, std::move(node));
      expr->name = attribute.text;
      return expr;
    }
    if (attribute.type != TokenType::kInteger) Fail("expected name or number", attribute.line);
    return Make(ExprKind::kItem, token.line, std::move(node),
                MakeConst(attribute.line, Value::Int(attribute.integer)));
  }
  std::vector<ExprPtr> indices;
  while (!Now().IsOperator("]")) {
    if (!indices.empty()) ExpectOperator(",");
    indices.push_back(ParseSlice());
  }
  ExpectOperator("]");
  if (indices.size() == 1)
    return Make(ExprKind::kItem, token.line, std::move(node), std::move(indices[0]));
  ExprPtr tuple = Make(ExprKind::kTuple, token.line);
  for (ExprPtr& index : indices) {
    if (index->kind == ExprKind::kSlice)
      Fail("a slice cannot be part of a tuple of indices", token.line);
    Push(*tuple, std::move(index));
  }
  return Make(ExprKind::kItem, token.line, std::move(node), std::move(tuple));
}

ExprPtr ExpressionParser::ParseSlice() {
  const int line = Now().line;
  const auto at_edge = [&] {
    return Now().IsOperator(":") || Now().IsOperator("]") || Now().IsOperator(",");
  };
  ExprPtr start = at_edge() && Now().IsOperator(":") ? nullptr : ParseExpression();
  if (!SkipOperator(":")) return start;
  ExprPtr stop = at_edge() ? nullptr : ParseExpression();
  ExprPtr step;
  if (SkipOperator(":") && !at_edge()) step = ParseExpression();
  ExprPtr slice = Make(ExprKind::kSlice, line);
  Push(*slice, std::move(start));
  Push(*slice, std::move(stop));
  Push(*slice, std::move(step));
  return slice;
}

void ExpressionParser::ParseArguments(Expr& expr) {
  const int line = Now().line;
  const auto ensure = [&](bool fine) {
    if (!fine) Fail("invalid syntax for function call expression", line);
  };
  CallArguments& call = expr.call;
  ExpectOperator("(");
  bool require_comma = false;
  while (!Now().IsOperator(")")) {
    if (require_comma) {
      ExpectOperator(",");
      if (Now().IsOperator(")")) break;
    }
    require_comma = true;
    ExprPtr argument;
    if (SkipOperator("*")) {
      ensure(!call.rest && !call.rest_named);
      call.rest = ParseExpression();
      Deepen(expr, call.rest.get());
    } else if (SkipOperator("**")) {
      ensure(!call.rest_named);
      call.rest_named = ParseExpression();
      Deepen(expr, call.rest_named.get());
    } else if (Now().type == TokenType::kName && Ahead().IsOperator("=")) {
      ensure(!call.rest_named);
      const std::string name = Next().text;
      Next();
      call.named.emplace_back(name, ParseExpression());
      Deepen(expr, call.named.back().second.get());
    } else {
      ensure(!call.rest && !call.rest_named && call.named.empty());
      call.positional.push_back(ParseExpression());
      Deepen(expr, call.positional.back().get());
    }
  }
  ExpectOperator(")");
}

ExprPtr ExpressionParser::ParseCall(ExprPtr node) {
  ExprPtr call = Make(ExprKind::kCall, Now().line, std::move(node));
  ParseArguments(*call);
  return call;
}

std::string ExpressionParser::ParseDottedName() {
  std::string name = ExpectAnyName();
  while (SkipOperator(".")) name += "." + ExpectAnyName();
  return name;
}

ExprPtr ExpressionParser::ParseFilters(ExprPtr node, bool start_inline) {
  while (Now().IsOperator("|") || start_inline) {
    if (!start_inline) Next();
    start_inline = false;
    ExprPtr filter = Make(ExprKind::kFilter, Now().line, std::move(node));
    filter->name = ParseDottedName();
    // Inside of an if an unknown filter only matters when it is reached.
    if (if_depth_ == 0 && !HasFilter(filter->name))
      Fail("No filter named '" + filter->name + "'.", filter->line);
    if (Now().IsOperator("(")) ParseArguments(*filter);
    node = std::move(filter);
  }
  return node;
}

ExprPtr ExpressionParser::ParseTest(ExprPtr node) {
  const int line = Next().line;
  const bool negated = SkipName("not");
  ExprPtr test = Make(ExprKind::kTest, line, std::move(node));
  test->name = ParseDottedName();
  if (if_depth_ == 0 && !HasTest(test->name)) Fail("No test named '" + test->name + "'.", line);
  const Token& token = Now();
  const bool starts_argument = token.type == TokenType::kName || token.type == TokenType::kString ||
                               token.type == TokenType::kInteger ||
                               token.type == TokenType::kFloat || token.IsOperator("[") ||
                               token.IsOperator("{");
  if (token.IsOperator("(")) {
    ParseArguments(*test);
  } else if (starts_argument && !token.IsName("else") && !token.IsName("or") &&
             !token.IsName("and")) {
    if (token.IsName("is")) Fail("You cannot chain multiple tests with is");
    DepthGuard guard(*this, depth_, kMaxParserDepth);
    ExprPtr argument = ParsePostfix(ParsePrimary());
    Deepen(*test, argument.get());
    test->call.positional.push_back(std::move(argument));
  }
  return negated ? Make(ExprKind::kNot, line, std::move(test)) : std::move(test);
}

}  // namespace am::text::jinja

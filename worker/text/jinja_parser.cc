// Parser of the template language, after jinja2's: recursive descent over the lexer's tokens, the
// same precedences and the same words in its complaints. Nesting is bounded, so that a hostile
// template cannot exhaust the stack.
#include <algorithm>
#include <initializer_list>

#include "worker/text/jinja_ast.h"
#include "worker/text/jinja_lexer.h"
#include "worker/text/jinja_library.h"

namespace am::text::jinja {
namespace {

constexpr int kMaxParserDepth = 150;
constexpr int kMaxExpressionDepth = 500;  // left-leaning chains like a + b + c ... count too
constexpr int kMaxStatementDepth = 60;

class Parser {
 public:
  explicit Parser(const std::string& source) : tokens_(Tokenize(source)) {}

  TemplateTree Run() {
    tree_.body = ParseBlock({});
    return std::move(tree_);
  }

 private:
  struct DepthGuard {
    DepthGuard(Parser& parser, int& depth, int limit) : depth(depth) {
      if (++depth > limit) {
        --depth;
        parser.Fail("the template nests deeper than " + std::to_string(limit) + " levels");
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

  // ---- Statements
  // -------------------------------------------------------------------------------------------------

  // Statements up to one of `ends`, which stays the current token; the whole template where there
  // are none.
  Block ParseBlock(std::initializer_list<const char*> ends) {
    DepthGuard guard(*this, statement_depth_, kMaxStatementDepth);
    Block block;
    const auto output = [&]() -> Stmt& {
      if (block.empty() || block.back()->kind != StmtKind::kOutput) Add(block, StmtKind::kOutput);
      return *block.back();
    };
    while (Now().type != TokenType::kEnd) {
      if (Now().type == TokenType::kData) {
        Add(block, StmtKind::kText).text = Now().text;
        Next();
      } else if (Now().type == TokenType::kVariableBegin) {
        Next();
        output().exprs.push_back(ParseTuple());
        if (Now().type != TokenType::kVariableEnd) FailExpected("end of print statement");
        Next();
      } else {
        Next();
        for (const char* end : ends) {
          if (Now().IsName(end)) return block;
        }
        ParseStatement(block, ends);
        ExpectBlockEnd();
      }
    }
    if (ends.size() != 0) {
      Fail("Unexpected end of template. Jinja was looking for the following tags: " +
           Alternatives(ends) + ".");
    }
    return block;
  }

  static std::string Alternatives(std::initializer_list<const char*> ends) {
    std::string out;
    for (const char* end : ends) out += (out.empty() ? "'" : " or '") + std::string(end) + "'";
    return out;
  }

  // The body of a statement: from its closing brace to the end tag, which is consumed when there is
  // only one.
  Block ParseBody(std::initializer_list<const char*> ends) {
    SkipOperator(":");
    ExpectBlockEnd();
    Block body = ParseBlock(ends);
    if (ends.size() == 1) Next();
    return body;
  }

  Stmt& Add(Block& block, StmtKind kind, int line = 0) {
    block.push_back(std::make_unique<Stmt>());
    block.back()->kind = kind;
    block.back()->line = line != 0 ? line : Now().line;
    return *block.back();
  }

  void ParseStatement(Block& block, std::initializer_list<const char*> ends) {
    if (Now().type != TokenType::kName) Fail("tag name expected");
    const Token tag = Next();
    const int line = tag.line;
    if (tag.text == "if") return ParseIf(Add(block, StmtKind::kIf, line));
    if (tag.text == "for") return ParseFor(Add(block, StmtKind::kFor, line));
    if (tag.text == "set") return ParseSet(Add(block, StmtKind::kSet, line));
    if (tag.text == "with") return ParseWith(Add(block, StmtKind::kWith, line));
    if (tag.text == "macro") return ParseMacro(Add(block, StmtKind::kMacro, line));
    if (tag.text == "call") return ParseCallBlock(Add(block, StmtKind::kCall, line));
    if (tag.text == "print") {
      Stmt& stmt = Add(block, StmtKind::kOutput, line);
      while (Now().type != TokenType::kBlockEnd) {
        if (!stmt.exprs.empty()) ExpectOperator(",");
        stmt.exprs.push_back(ParseExpression());
      }
      return;
    }
    if (tag.text == "filter") {
      Stmt& stmt = Add(block, StmtKind::kFilter, line);
      stmt.exprs.push_back(ParseFilters(nullptr, true));
      stmt.blocks.push_back(ParseBody({"endfilter"}));
      return;
    }
    if (tag.text == "generation") {
      Stmt& stmt = Add(block, StmtKind::kGeneration, line);
      stmt.blocks.push_back(InFunction([&] { return ParseBody({"endgeneration"}); }));
      tree_.has_generation = true;
      return;
    }
    if (tag.text == "break" || tag.text == "continue") {
      if (loop_depth_ == 0) Fail("'" + tag.text + "' outside of a loop", line);
      Add(block, tag.text == "break" ? StmtKind::kBreak : StmtKind::kContinue, line);
      return;
    }
    for (const char* other : {"block", "extends", "include", "import", "from", "autoescape"}) {
      if (tag.text == other)
        Fail("the tag '" + tag.text + "' is not supported in a chat template", line);
    }
    std::string message = "Encountered unknown tag '" + tag.text + "'.";
    if (ends.size() != 0)
      message += " Jinja was looking for the following tags: " + Alternatives(ends) + ".";
    Fail(message, line);
  }

  template <typename Body>
  Block InFunction(Body body) {
    const int outer = std::exchange(loop_depth_, 0);
    Block block = body();
    loop_depth_ = outer;
    return block;
  }

  void ParseIf(Stmt& stmt) {
    ++if_depth_;
    while (true) {
      stmt.exprs.push_back(ParseTuple({.conditional = false}));
      stmt.blocks.push_back(ParseBody({"elif", "else", "endif"}));
      const Token end = Next();
      if (end.IsName("elif")) continue;
      if (end.IsName("else")) stmt.blocks.push_back(ParseBody({"endif"}));
      break;
    }
    --if_depth_;
  }

  void ParseFor(Stmt& stmt) {
    stmt.targets.push_back(ParseTarget(false, "in"));
    ExpectName("in");
    stmt.exprs.push_back(ParseTuple({.conditional = false, .end_name = "recursive"}));
    stmt.exprs.push_back(SkipName("if") ? ParseExpression() : nullptr);
    stmt.recursive = SkipName("recursive");
    ++loop_depth_;
    stmt.blocks.push_back(ParseBody({"endfor", "else"}));
    --loop_depth_;
    stmt.blocks.push_back(Next().IsName("else") ? ParseBody({"endfor"}) : Block());
  }

  void ParseSet(Stmt& stmt) {
    stmt.targets.push_back(ParseTarget(true, nullptr));
    if (SkipOperator("=")) {
      stmt.exprs.push_back(ParseTuple());
      return;
    }
    stmt.kind = StmtKind::kSetBlock;
    stmt.exprs.push_back(ParseFilters(nullptr, false));
    stmt.blocks.push_back(ParseBody({"endset"}));
  }

  void ParseWith(Stmt& stmt) {
    while (Now().type != TokenType::kBlockEnd) {
      if (!stmt.targets.empty()) ExpectOperator(",");
      stmt.targets.push_back(ParseTarget(false, nullptr, false));
      ExpectOperator("=");
      stmt.exprs.push_back(ParseExpression());
    }
    stmt.blocks.push_back(ParseBody({"endwith"}));
  }

  void ParseSignature(MacroDefinition& macro) {
    ExpectOperator("(");
    while (!Now().IsOperator(")")) {
      if (!macro.parameters.empty()) ExpectOperator(",");
      const Token name = Now();
      macro.parameters.push_back(ExpectAnyName());
      CheckAssignable(name);
      if (SkipOperator("=")) {
        macro.defaults.push_back(ParseExpression());
      } else if (!macro.defaults.empty()) {
        Fail("non-default argument follows default argument");
      }
    }
    ExpectOperator(")");
  }

  void ParseMacroBody(MacroDefinition& macro, const char* end) {
    macros_.push_back(&macro);
    macro.body = InFunction([&] { return ParseBody({end}); });
    macros_.pop_back();
  }

  void ParseMacro(Stmt& stmt) {
    const Token name = Now();
    stmt.macro.name = ExpectAnyName();
    CheckAssignable(name);
    ParseSignature(stmt.macro);
    ParseMacroBody(stmt.macro, "endmacro");
  }

  void ParseCallBlock(Stmt& stmt) {
    if (Now().IsOperator("(")) ParseSignature(stmt.macro);
    stmt.exprs.push_back(ParseExpression());
    if (stmt.exprs[0]->kind != ExprKind::kCall) Fail("expected call", stmt.line);
    ParseMacroBody(stmt.macro, "endcall");
  }

  // ---- Assignment targets
  // -----------------------------------------------------------------------------------------

  void CheckAssignable(const Token& name) const {
    for (const char* constant : {"true", "false", "none", "True", "False", "None"}) {
      if (name.IsName(constant)) Fail("can't assign to 'const'", name.line);
    }
  }

  Target ParseTargetPart(bool with_namespace) {
    Target target;
    target.line = Now().line;
    if (SkipOperator("(")) {
      target = ParseTarget(with_namespace, nullptr);
      ExpectOperator(")");
      return target;
    }
    const Token name = Now();
    if (name.type != TokenType::kName) Fail("can't assign to '" + Describe(name) + "'");
    target.name = Next().text;
    if (with_namespace && SkipOperator(".")) {
      target.what = Target::kNamespace;
      target.attribute = ExpectAnyName();
      return target;
    }
    CheckAssignable(name);
    if (loop_depth_ > 0 && target.name == "loop") {
      Fail("Can't assign to special loop variable in for-loop target", name.line);
    }
    return target;
  }

  Target ParseTarget(bool with_namespace, const char* end_name, bool with_tuple = true) {
    DepthGuard guard(*this, depth_, kMaxParserDepth);
    Target first = ParseTargetPart(with_namespace);
    if (!with_tuple || !Now().IsOperator(",")) return first;
    Target tuple;
    tuple.what = Target::kTuple;
    tuple.line = first.line;
    tuple.items.push_back(std::move(first));
    while (SkipOperator(",")) {
      if (Now().type == TokenType::kBlockEnd || Now().IsOperator(")") || Now().IsOperator("=") ||
          (end_name != nullptr && Now().IsName(end_name))) {
        break;
      }
      tuple.items.push_back(ParseTargetPart(with_namespace));
    }
    return tuple;
  }

  // ---- Expressions
  // ------------------------------------------------------------------------------------------------

  ExprPtr Make(ExprKind kind, int line, ExprPtr a = nullptr, ExprPtr b = nullptr,
               ExprPtr c = nullptr) const {
    auto expr = std::make_unique<Expr>();
    expr->kind = kind;
    expr->line = line;
    expr->a = std::move(a);
    expr->b = std::move(b);
    expr->c = std::move(c);
    for (const Expr* child : {expr->a.get(), expr->b.get(), expr->c.get()}) Deepen(*expr, child);
    return expr;
  }

  void Deepen(Expr& expr, const Expr* child) const {
    if (child != nullptr) expr.depth = std::max(expr.depth, child->depth + 1);
    if (expr.depth > kMaxExpressionDepth)
      Fail("an expression is too long or nests too deep", expr.line);
  }

  void Push(Expr& expr, ExprPtr item) const {
    Deepen(expr, item.get());
    expr.items.push_back(std::move(item));
  }

  ExprPtr MakeConst(int line, Value value) const {
    ExprPtr expr = Make(ExprKind::kConst, line);
    expr->value = std::move(value);
    return expr;
  }

  ExprPtr ParseExpression(bool conditional = true) {
    DepthGuard guard(*this, depth_, kMaxParserDepth);
    return conditional ? ParseConditional() : ParseOr();
  }

  ExprPtr ParseConditional() {
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

  ExprPtr ParseOr() {
    const int line = Now().line;
    ExprPtr left = ParseAnd();
    while (SkipName("or")) left = Make(ExprKind::kOr, line, std::move(left), ParseAnd());
    return left;
  }

  ExprPtr ParseAnd() {
    const int line = Now().line;
    ExprPtr left = ParseNot();
    while (SkipName("and")) left = Make(ExprKind::kAnd, line, std::move(left), ParseNot());
    return left;
  }

  ExprPtr ParseNot() {
    if (!Now().IsName("not")) return ParseCompare();
    DepthGuard guard(*this, depth_, kMaxParserDepth);
    const int line = Next().line;
    return Make(ExprKind::kNot, line, ParseNot());
  }

  ExprPtr ParseCompare() {
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

  ExprPtr MakeBinary(const std::string& op, int line, ExprPtr left, ExprPtr right) const {
    ExprPtr expr = Make(ExprKind::kBinary, line, std::move(left), std::move(right));
    expr->name = op;
    return expr;
  }

  ExprPtr ParseSum() {
    const int line = Now().line;
    ExprPtr left = ParseConcat();
    while (Now().IsOperator("+") || Now().IsOperator("-")) {
      const std::string op = Next().text;
      left = MakeBinary(op, line, std::move(left), ParseConcat());
    }
    return left;
  }

  ExprPtr ParseConcat() {
    const int line = Now().line;
    ExprPtr first = ParseProduct();
    if (!Now().IsOperator("~")) return first;
    ExprPtr concat = Make(ExprKind::kConcat, line);
    Push(*concat, std::move(first));
    while (SkipOperator("~")) Push(*concat, ParseProduct());
    return concat;
  }

  ExprPtr ParseProduct() {
    const int line = Now().line;
    ExprPtr left = ParsePower();
    while (Now().IsOperator("*") || Now().IsOperator("/") || Now().IsOperator("//") ||
           Now().IsOperator("%")) {
      const std::string op = Next().text;
      left = MakeBinary(op, line, std::move(left), ParsePower());
    }
    return left;
  }

  ExprPtr ParsePower() {
    const int line = Now().line;
    ExprPtr left = ParseUnary();
    while (SkipOperator("**")) left = MakeBinary("**", line, std::move(left), ParseUnary());
    return left;
  }

  ExprPtr ParseUnary(bool with_filter = true) {
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

  ExprPtr ParsePrimary() {
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

  ExprPtr ParseList(int line) {
    ExprPtr list = Make(ExprKind::kList, line);
    while (!Now().IsOperator("]")) {
      if (!list->items.empty()) ExpectOperator(",");
      if (Now().IsOperator("]")) break;
      Push(*list, ParseExpression());
    }
    ExpectOperator("]");
    return list;
  }

  ExprPtr ParseDict(int line) {
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

  struct TupleRules {
    bool conditional = true;
    bool parentheses = false;
    const char* end_name = nullptr;
  };

  bool AtTupleEnd(const TupleRules& rules) const {
    return Now().type == TokenType::kVariableEnd || Now().type == TokenType::kBlockEnd ||
           Now().IsOperator(")") || (rules.end_name != nullptr && Now().IsName(rules.end_name));
  }

  ExprPtr ParseTuple() { return ParseTuple(TupleRules{}); }
  ExprPtr ParseTuple(TupleRules rules) {
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

  ExprPtr ParsePostfix(ExprPtr node) {
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

  ExprPtr ParseFiltersAndTests(ExprPtr node) {
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

  ExprPtr ParseSubscript(ExprPtr node) {
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

  ExprPtr ParseSlice() {
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

  void ParseArguments(Expr& expr) {
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

  ExprPtr ParseCall(ExprPtr node) {
    ExprPtr call = Make(ExprKind::kCall, Now().line, std::move(node));
    ParseArguments(*call);
    return call;
  }

  std::string ParseDottedName() {
    std::string name = ExpectAnyName();
    while (SkipOperator(".")) name += "." + ExpectAnyName();
    return name;
  }

  ExprPtr ParseFilters(ExprPtr node, bool start_inline) {
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

  ExprPtr ParseTest(ExprPtr node) {
    const int line = Next().line;
    const bool negated = SkipName("not");
    ExprPtr test = Make(ExprKind::kTest, line, std::move(node));
    test->name = ParseDottedName();
    if (if_depth_ == 0 && !HasTest(test->name)) Fail("No test named '" + test->name + "'.", line);
    const Token& token = Now();
    const bool starts_argument =
        token.type == TokenType::kName || token.type == TokenType::kString ||
        token.type == TokenType::kInteger || token.type == TokenType::kFloat ||
        token.IsOperator("[") || token.IsOperator("{");
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

  std::vector<Token> tokens_;
  size_t at_ = 0;
  TemplateTree tree_;
  int depth_ = 0;
  int statement_depth_ = 0;
  int loop_depth_ = 0;
  int if_depth_ = 0;
  std::vector<MacroDefinition*> macros_;  // whose bodies are being parsed
};

}  // namespace

TemplateTree ParseTemplate(const std::string& source) { return Parser(source).Run(); }

}  // namespace am::text::jinja

// Parser of the template language, after jinja2's: recursive descent over the lexer's tokens. This
// half reads statements. Nesting is bounded, so that a hostile template cannot exhaust the stack.
#include <initializer_list>

#include "worker/text/jinja_expression_parser.h"

namespace am::text::jinja {
namespace {

constexpr int kMaxStatementDepth = 60;

class Parser : private ExpressionParser {
 public:
  explicit Parser(const std::string& source) : ExpressionParser(source) {}

  TemplateTree Run() {
    tree_.body = ParseBlock({});
    return std::move(tree_);
  }

 private:
  // Statements.

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

  // Assignment targets.

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

  TemplateTree tree_;
  int statement_depth_ = 0;
  int loop_depth_ = 0;
};

}  // namespace

TemplateTree ParseTemplate(const std::string& source) { return Parser(source).Run(); }

}  // namespace am::text::jinja

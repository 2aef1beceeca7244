// Evaluator: one rendering of a parsed template, on the calling thread. Work, output and nesting
// are bounded.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "worker/text/jinja_ast.h"
#include "worker/text/jinja_library.h"
#include "worker/text/jinja_value.h"

namespace am::text::jinja {

// A set of variables. `if` has none of its own; loops, macros, blocks and `with` do, and what they
// set does not leak.
struct Scope {
  std::shared_ptr<Scope> parent;
  std::vector<std::pair<std::string, Value>> variables;
  bool captured = false;  // by a macro, which the variables may hold in turn

  const Value* Find(const std::string& name) const;
  void Set(const std::string& name, Value value);
};
using ScopePtr = std::shared_ptr<Scope>;

class Evaluator {
 public:
  Evaluator(const TemplateTree& tree, std::time_t now);
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  void SetVariable(const std::string& name, Value value) { globals_[name] = std::move(value); }
  std::string Run();  // throws Failure; line() then tells where
  int line() const { return line_; }
  // Of each {% generation %} block: where it begins in bytes, and how many code points it wrote.
  const std::vector<std::pair<size_t, int64_t>>& generations() const { return generations_; }

 private:
  friend class Macro;
  friend class LoopContext;
  enum class Flow { kNormal, kBreak, kContinue };
  struct DepthGuard;

  Flow RunBlock(const Block& block, const ScopePtr& scope);
  Flow RunStatement(const Stmt& stmt, const ScopePtr& scope);
  Flow RunIf(const Stmt& stmt, const ScopePtr& scope);
  Flow RunFor(const Stmt& stmt, const ScopePtr& scope);
  void RunLoop(const Stmt& stmt, const ScopePtr& scope, const Value& iterable, int loop_depth);
  std::vector<Value> LoopItems(const Stmt& stmt, const ScopePtr& scope, const Value& iterable);
  Flow RunSetBlock(const Stmt& stmt, const ScopePtr& scope);
  Flow RunWith(const Stmt& stmt, const ScopePtr& scope);
  void RunCall(const Stmt& stmt, const ScopePtr& scope);
  void RunGeneration(const Stmt& stmt, const ScopePtr& scope);
  std::string Capture(const Block& block, const ScopePtr& scope, Flow* flow = nullptr);
  void Assign(const Target& target, const Value& value, Scope& scope, Scope& lookup);
  Value MakeMacro(const MacroDefinition& macro, const ScopePtr& scope);
  Value InvokeMacro(const MacroDefinition& macro, const ScopePtr& scope, Arguments& arguments);

  Value Eval(const Expr& expr, const ScopePtr& scope);
  Value EvalName(const Expr& expr, const Scope& scope);
  Value EvalItem(const Expr& expr, const ScopePtr& scope);
  Value EvalCall(const Expr& expr, const ScopePtr& scope, const Value* caller);
  Value EvalFilter(const Expr& expr, const ScopePtr& scope, const Value* input);
  Value EvalTest(const Expr& expr, const ScopePtr& scope);
  Value EvalConditional(const Expr& expr, const ScopePtr& scope);
  Value EvalCompare(const Expr& expr, const ScopePtr& scope);
  Value EvalConcat(const Expr& expr, const ScopePtr& scope);
  Value EvalContainer(const Expr& expr, const ScopePtr& scope);
  Value EvalUnary(const Expr& expr, const ScopePtr& scope);
  void EvalArguments(const CallArguments& call, const ScopePtr& scope, Arguments& arguments);

  const TemplateTree& tree_;
  std::vector<std::shared_ptr<Namespace>> namespaces_;
  std::vector<ScopePtr> captured_;
  std::unordered_map<std::string, Value> globals_;
  TextBuilder root_;
  TextBuilder* out_ = &root_;
  std::vector<std::pair<size_t, int64_t>> generations_;
  int line_ = 1;
  int depth_ = 0;
};

}  // namespace am::text::jinja

// Expressions of the evaluator.
#include "worker/text/jinja_depth_guard.h"
#include "worker/text/jinja_evaluator.h"
#include "worker/text/jinja_unicode.h"

namespace am::text::jinja {

Value Evaluator::Eval(const Expr& expr, const ScopePtr& scope) {
  const DepthGuard guard(depth_);
  ChargeWork(1);
  line_ = expr.line;
  switch (expr.kind) {
    case ExprKind::kConst:
      return expr.value;
    case ExprKind::kName:
      return EvalName(expr, *scope);
    case ExprKind::kAttribute:
      return GetAttribute(Eval(*expr.a, scope), expr.name);
    case ExprKind::kItem:
      return EvalItem(expr, scope);
    case ExprKind::kSlice:
      return Value::None();  // handled by its kItem
    case ExprKind::kCall:
      return EvalCall(expr, scope, nullptr);
    case ExprKind::kFilter:
      return EvalFilter(expr, scope, nullptr);
    case ExprKind::kTest:
      return EvalTest(expr, scope);
    case ExprKind::kList:
    case ExprKind::kTuple:
    case ExprKind::kDict:
      return EvalContainer(expr, scope);
    case ExprKind::kConditional:
      return EvalConditional(expr, scope);
    case ExprKind::kAnd: {
      Value left = Eval(*expr.a, scope);
      return Truthy(left) ? Eval(*expr.b, scope) : left;
    }
    case ExprKind::kOr: {
      Value left = Eval(*expr.a, scope);
      return Truthy(left) ? left : Eval(*expr.b, scope);
    }
    case ExprKind::kNot:
      return Value::Bool(!Truthy(Eval(*expr.a, scope)));
    case ExprKind::kNegative:
    case ExprKind::kPositive:
      return EvalUnary(expr, scope);
    case ExprKind::kCompare:
      return EvalCompare(expr, scope);
    case ExprKind::kConcat:
      return EvalConcat(expr, scope);
    case ExprKind::kBinary: {
      const Value left = Eval(*expr.a, scope);
      return Binary(expr.name, left, Eval(*expr.b, scope));
    }
  }
  return Value::None();
}

Value Evaluator::EvalName(const Expr& expr, const Scope& scope) {
  if (const Value* found = scope.Find(expr.name)) return *found;
  if (const auto global = globals_.find(expr.name); global != globals_.end()) return global->second;
  return Value::Undefined(QuotedText(expr.name) + " is undefined");
}

Value Evaluator::EvalItem(const Expr& expr, const ScopePtr& scope) {
  const Value object = Eval(*expr.a, scope);
  if (expr.b->kind != ExprKind::kSlice) return GetItem(object, Eval(*expr.b, scope));
  Value bounds[3];
  for (size_t i = 0; i < 3; ++i) {
    if (expr.b->items[i] != nullptr) bounds[i] = Eval(*expr.b->items[i], scope);
  }
  return GetSlice(object, bounds[0], bounds[1], bounds[2]);
}

void Evaluator::EvalArguments(const CallArguments& call, const ScopePtr& scope,
                              Arguments& arguments) {
  for (const ExprPtr& argument : call.positional)
    arguments.positional.push_back(Eval(*argument, scope));
  if (call.rest != nullptr) {
    for (Value& item : Iterate(Eval(*call.rest, scope)))
      arguments.positional.push_back(std::move(item));
  }
  for (const auto& [name, argument] : call.named)
    arguments.named.emplace_back(name, Eval(*argument, scope));
  if (call.rest_named == nullptr) return;
  const Value named = Eval(*call.rest_named, scope);
  if (!named.is_dict())
    throw Failure("argument after ** must be a mapping, not " + TypeName(named));
  for (const auto& [key, value] : named.dict().items()) {
    if (!key.is_string()) throw Failure("keywords must be strings");
    arguments.named.emplace_back(key.text(), value);
  }
}

Value Evaluator::EvalCall(const Expr& expr, const ScopePtr& scope, const Value* caller) {
  const Value callee = Eval(*expr.a, scope);
  Arguments arguments;
  EvalArguments(expr.call, scope, arguments);
  if (caller != nullptr) arguments.named.emplace_back("caller", *caller);
  line_ = expr.line;
  Value result = Call(callee, arguments);
  line_ = expr.line;
  return result;
}

Value Evaluator::EvalFilter(const Expr& expr, const ScopePtr& scope, const Value* input) {
  // In a chain that starts with a block's text, the innermost filter has no operand of its own.
  const Value value = expr.a == nullptr ? *input
                      : expr.a->kind == ExprKind::kFilter && input != nullptr
                          ? EvalFilter(*expr.a, scope, input)
                          : Eval(*expr.a, scope);
  Arguments arguments;
  EvalArguments(expr.call, scope, arguments);
  line_ = expr.line;
  return ApplyFilter(expr.name, value, arguments);
}

Value Evaluator::EvalTest(const Expr& expr, const ScopePtr& scope) {
  const Value value = Eval(*expr.a, scope);
  Arguments arguments;
  EvalArguments(expr.call, scope, arguments);
  line_ = expr.line;
  return Value::Bool(ApplyTest(expr.name, value, arguments));
}

Value Evaluator::EvalConditional(const Expr& expr, const ScopePtr& scope) {
  if (Truthy(Eval(*expr.b, scope))) return Eval(*expr.a, scope);
  if (expr.c != nullptr) return Eval(*expr.c, scope);
  return Value::Undefined("the inline if-expression on line " + std::to_string(expr.line) +
                          " evaluated to false and no else section was defined.");
}

Value Evaluator::EvalCompare(const Expr& expr, const ScopePtr& scope) {
  Value left = Eval(*expr.a, scope);
  for (size_t i = 0; i < expr.items.size(); ++i) {
    Value right = Eval(*expr.items[i], scope);
    if (!Compare(expr.ops[i], left, right)) return Value::Bool(false);
    left = std::move(right);
  }
  return Value::Bool(true);
}

Value Evaluator::EvalConcat(const Expr& expr, const ScopePtr& scope) {
  TextBuilder out;
  for (const ExprPtr& item : expr.items) out += ToText(Eval(*item, scope));
  return Value::Str(out.Take());
}

Value Evaluator::EvalContainer(const Expr& expr, const ScopePtr& scope) {
  if (expr.kind == ExprKind::kDict) {
    Dict dict;
    for (size_t i = 0; i < expr.items.size(); i += 2) {
      Value key = Eval(*expr.items[i], scope);
      dict.Set(std::move(key), Eval(*expr.items[i + 1], scope));
    }
    return Value::FromDict(std::move(dict));
  }
  std::vector<Value> items;
  items.reserve(expr.items.size());
  for (const ExprPtr& item : expr.items) items.push_back(Eval(*item, scope));
  return expr.kind == ExprKind::kList ? Value::List(std::move(items))
                                      : Value::Tuple(std::move(items));
}

Value Evaluator::EvalUnary(const Expr& expr, const ScopePtr& scope) {
  const Value value = Eval(*expr.a, scope);
  if (value.is_undefined()) FailUndefined(value);
  const bool negative = expr.kind == ExprKind::kNegative;
  if (!value.is_number()) {
    throw Failure(std::string("bad operand type for unary ") + (negative ? "-" : "+") + ": '" +
                  TypeName(value) + "'");
  }
  if (value.kind() == Kind::kFloat) return Value::Float(negative ? -value.real() : value.real());
  return negative ? Binary("-", Value::Int(0), value) : Value::Int(value.integer());
}

}  // namespace am::text::jinja

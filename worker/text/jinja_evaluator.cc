// Statements: scopes, loops, macros. Expressions are in jinja_expressions.cc.
#include "worker/text/jinja_evaluator.h"

#include <algorithm>

#include "worker/text/jinja_depth_guard.h"
#include "worker/text/jinja_unicode.h"

namespace am::text::jinja {

const Value* Scope::Find(const std::string& name) const {
  for (const Scope* scope = this; scope != nullptr; scope = scope->parent.get()) {
    for (const auto& [key, value] : scope->variables) {
      if (key == name) return &value;
    }
  }
  return nullptr;
}

void Scope::Set(const std::string& name, Value value) {
  for (auto& [key, old] : variables) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  variables.emplace_back(name, std::move(value));
}

namespace {

ScopePtr Child(const ScopePtr& parent) {
  auto scope = std::make_shared<Scope>();
  scope->parent = parent;
  return scope;
}

}  // namespace

class Macro : public Object {
 public:
  Macro(Evaluator& evaluator, const MacroDefinition& definition, ScopePtr scope)
      : evaluator_(evaluator), definition_(definition), scope_(std::move(scope)) {}
  std::string TypeName() const override { return "Macro"; }
  std::string Repr() const override {
    return definition_.name.empty() ? "<Macro anonymous>"
                                    : "<Macro " + QuotedText(definition_.name) + ">";
  }
  bool callable() const override { return true; }
  std::optional<Value> Attribute(const std::string& name) override {
    if (name == "name")
      return definition_.name.empty() ? Value::None() : Value::Str(definition_.name);
    if (name == "caller") return Value::Bool(definition_.uses_caller);
    if (name == "catch_kwargs") return Value::Bool(definition_.uses_kwargs);
    if (name == "catch_varargs") return Value::Bool(definition_.uses_varargs);
    if (name != "arguments") return std::nullopt;
    std::vector<Value> names;
    for (const std::string& parameter : definition_.parameters)
      names.push_back(Value::Str(parameter));
    return Value::List(std::move(names));
  }
  Value Call(Arguments& arguments) override {
    return evaluator_.InvokeMacro(definition_, scope_, arguments);
  }

 private:
  Evaluator& evaluator_;
  const MacroDefinition& definition_;
  ScopePtr scope_;
};

// The `loop` variable. It lives as long as somebody holds it, its items with it.
class LoopContext : public Object, public std::enable_shared_from_this<LoopContext> {
 public:
  LoopContext(Evaluator& evaluator, const Stmt& stmt, ScopePtr scope, const Value& items, int depth)
      : evaluator_(evaluator),
        stmt_(stmt),
        scope_(std::move(scope)),
        items_(items),
        depth0_(depth) {
    Hold(items);
  }
  void Next() { ++index0_; }

  std::string TypeName() const override { return "LoopContext"; }
  std::string Repr() const override {
    return "<LoopContext " + std::to_string(index0_ + 1) + "/" + std::to_string(size()) + ">";
  }
  std::optional<int64_t> Length() override { return size(); }
  bool callable() const override { return true; }

  std::optional<Value> Attribute(const std::string& name) override {
    if (name == "index0") return Value::Int(index0_);
    if (name == "index") return Value::Int(index0_ + 1);
    if (name == "first") return Value::Bool(index0_ == 0);
    if (name == "last") return Value::Bool(index0_ + 1 == size());
    if (name == "length") return Value::Int(size());
    if (name == "revindex") return Value::Int(size() - index0_);
    if (name == "revindex0") return Value::Int(size() - index0_ - 1);
    if (name == "depth") return Value::Int(depth0_ + 1);
    if (name == "depth0") return Value::Int(depth0_);
    if (name == "previtem")
      return index0_ > 0 ? Item(index0_ - 1) : Value::Undefined("there is no previous item");
    if (name == "nextitem") {
      return index0_ + 1 < size() ? Item(index0_ + 1) : Value::Undefined("there is no next item");
    }
    if (name == "cycle") return Method(&LoopContext::Cycle);
    if (name == "changed") return Method(&LoopContext::Changed);
    return std::nullopt;
  }

  Value Call(Arguments& arguments) override {
    if (!stmt_.recursive) {
      throw Failure("The loop must have the 'recursive' marker to be called recursively.");
    }
    const Parameters p("loop", arguments, {"iterable"}, 1);
    TextBuilder text;
    TextBuilder* outer = std::exchange(evaluator_.out_, &text);
    evaluator_.RunLoop(stmt_, scope_, p.At(0), depth0_ + 1);
    evaluator_.out_ = outer;
    return Value::Str(text.Take());
  }

 private:
  int64_t size() const { return static_cast<int64_t>(items_.sequence().items.size()); }
  Value Item(int64_t i) const { return items_.sequence().items[static_cast<size_t>(i)]; }

  Value Method(Value (LoopContext::*body)(Arguments&)) {
    return Value::FromObject(std::make_shared<Function>(
        "loop method",
        [self = shared_from_this(), body](Arguments& arguments) {
          return ((*self).*body)(arguments);
        },
        Value::FromObject(shared_from_this())));
  }

  Value Cycle(Arguments& arguments) {
    if (arguments.positional.empty()) throw Failure("no items for cycling given");
    return arguments.positional[static_cast<size_t>(index0_) % arguments.positional.size()];
  }

  Value Changed(Arguments& arguments) {
    // Kept as text: holding the values would let a loop hold itself.
    std::string now;
    for (const Value& value : arguments.positional) now += jinja::Repr(value) + ",";
    const bool changed = last_changed_ != now;
    last_changed_ = now;
    return Value::Bool(changed);
  }

  Evaluator& evaluator_;
  const Stmt& stmt_;
  ScopePtr scope_;
  Value items_;
  int64_t index0_ = -1;
  int depth0_;
  std::optional<std::string> last_changed_;
};

Evaluator::Evaluator(const TemplateTree& tree, std::time_t now)
    : tree_(tree), globals_(Globals(now, namespaces_)) {}

Evaluator::~Evaluator() {
  // Breaks the circles macro - scope - macro and namespace - namespace, one link at a time.
  for (const ScopePtr& scope : captured_) scope->variables.clear();
  for (const auto& space : namespaces_) space->Clear();
}

std::string Evaluator::Run() {
  RunBlock(tree_.body, std::make_shared<Scope>());
  return root_.Take();
}

Evaluator::Flow Evaluator::RunBlock(const Block& block, const ScopePtr& scope) {
  const DepthGuard guard(depth_);
  for (const auto& stmt : block) {
    const Flow flow = RunStatement(*stmt, scope);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Evaluator::Flow Evaluator::RunStatement(const Stmt& stmt, const ScopePtr& scope) {
  ChargeWork(1);
  line_ = stmt.line;
  switch (stmt.kind) {
    case StmtKind::kText:
      *out_ += stmt.text;
      break;
    case StmtKind::kOutput:
      for (const ExprPtr& expr : stmt.exprs) {
        const Value value = Eval(*expr, scope);
        if (value.is_string()) {
          *out_ += value.text();
        } else {
          *out_ += ToText(value);
        }
      }
      break;
    case StmtKind::kIf:
      return RunIf(stmt, scope);
    case StmtKind::kFor:
      return RunFor(stmt, scope);
    case StmtKind::kSet:
      Assign(stmt.targets[0], Eval(*stmt.exprs[0], scope), *scope, *scope);
      break;
    case StmtKind::kSetBlock:
      return RunSetBlock(stmt, scope);
    case StmtKind::kWith:
      return RunWith(stmt, scope);
    case StmtKind::kMacro:
      scope->Set(stmt.macro.name, MakeMacro(stmt.macro, scope));
      break;
    case StmtKind::kCall:
      RunCall(stmt, scope);
      break;
    case StmtKind::kFilter: {
      const ScopePtr inner = Child(scope);
      Flow flow = Flow::kNormal;
      const Value body = Value::Str(Capture(stmt.blocks[0], inner, &flow));
      if (flow != Flow::kNormal) return flow;
      *out_ += ToText(EvalFilter(*stmt.exprs[0], inner, &body));
      break;
    }
    case StmtKind::kGeneration:
      RunGeneration(stmt, scope);
      break;
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNormal;
}

Evaluator::Flow Evaluator::RunIf(const Stmt& stmt, const ScopePtr& scope) {
  for (size_t i = 0; i < stmt.exprs.size(); ++i) {
    if (Truthy(Eval(*stmt.exprs[i], scope))) return RunBlock(stmt.blocks[i], scope);
  }
  return stmt.blocks.size() > stmt.exprs.size() ? RunBlock(stmt.blocks.back(), scope)
                                                : Flow::kNormal;
}

Evaluator::Flow Evaluator::RunFor(const Stmt& stmt, const ScopePtr& scope) {
  RunLoop(stmt, scope, Eval(*stmt.exprs[0], scope), 0);
  return Flow::kNormal;
}

std::vector<Value> Evaluator::LoopItems(const Stmt& stmt, const ScopePtr& scope,
                                        const Value& iterable) {
  std::vector<Value> items = Iterate(iterable);
  if (stmt.exprs[1] == nullptr) return items;
  std::vector<Value> kept;
  for (Value& item : items) {
    const ScopePtr inner = Child(scope);
    Assign(stmt.targets[0], item, *inner, *scope);
    if (Truthy(Eval(*stmt.exprs[1], inner))) kept.push_back(std::move(item));
  }
  return kept;
}

void Evaluator::RunLoop(const Stmt& stmt, const ScopePtr& scope, const Value& iterable,
                        int loop_depth) {
  const Value items = Value::List(LoopItems(stmt, scope, iterable));
  const auto loop = std::make_shared<LoopContext>(*this, stmt, scope, items, loop_depth);
  const Value loop_value = Value::FromObject(loop);
  bool completed =
      false;  // an iteration, without break or continue: what jinja2 asks before the else branch
  for (const Value& item : items.sequence().items) {
    loop->Next();
    const ScopePtr inner = Child(scope);
    inner->variables.emplace_back("loop", loop_value);
    Assign(stmt.targets[0], item, *inner, *scope);
    const Flow flow = RunBlock(stmt.blocks[0], inner);
    if (flow == Flow::kBreak) break;
    completed = completed || flow == Flow::kNormal;
  }
  if (!completed) RunBlock(stmt.blocks[1], Child(scope));
}

Evaluator::Flow Evaluator::RunSetBlock(const Stmt& stmt, const ScopePtr& scope) {
  Flow flow = Flow::kNormal;
  Value value = Value::Str(Capture(stmt.blocks[0], Child(scope), &flow));
  if (flow != Flow::kNormal) return flow;
  if (stmt.exprs[0] != nullptr) value = EvalFilter(*stmt.exprs[0], scope, &value);
  Assign(stmt.targets[0], value, *scope, *scope);
  return Flow::kNormal;
}

Evaluator::Flow Evaluator::RunWith(const Stmt& stmt, const ScopePtr& scope) {
  const ScopePtr inner = Child(scope);
  for (size_t i = 0; i < stmt.targets.size(); ++i) {
    Assign(stmt.targets[i], Eval(*stmt.exprs[i], scope), *inner, *scope);
  }
  return RunBlock(stmt.blocks[0], inner);
}

void Evaluator::RunCall(const Stmt& stmt, const ScopePtr& scope) {
  const Value caller = MakeMacro(stmt.macro, scope);
  *out_ += ToText(EvalCall(*stmt.exprs[0], scope, &caller));
}

void Evaluator::RunGeneration(const Stmt& stmt, const ScopePtr& scope) {
  const std::string text = Capture(stmt.blocks[0], Child(scope));
  // transformers counts from what the whole template has put out so far, wherever the block stands.
  generations_.emplace_back(root_.size(), CountCodePoints(text));
  *out_ += text;
}

std::string Evaluator::Capture(const Block& block, const ScopePtr& scope, Flow* flow) {
  TextBuilder text;
  TextBuilder* outer = std::exchange(out_, &text);
  const Flow result = RunBlock(block, scope);
  out_ = outer;
  if (flow != nullptr) *flow = result;
  return text.Take();
}

void Evaluator::Assign(const Target& target, const Value& value, Scope& scope, Scope& lookup) {
  switch (target.what) {
    case Target::kName:
      scope.Set(target.name, value);
      break;
    case Target::kNamespace: {
      const Value* found = lookup.Find(target.name);
      if (found == nullptr) {
        const auto global = globals_.find(target.name);
        found = global != globals_.end() ? &global->second : nullptr;
      }
      const auto space = found != nullptr && found->kind() == Kind::kObject
                             ? std::dynamic_pointer_cast<Namespace>(found->object())
                             : nullptr;
      if (space == nullptr) throw Failure("cannot assign attribute on non-namespace object");
      space->Set(target.attribute, value);
      break;
    }
    case Target::kTuple: {
      if (!Iterable(value))
        throw Failure("cannot unpack non-iterable " + TypeName(value) + " object");
      const std::vector<Value> parts = Iterate(value);
      const size_t wanted = target.items.size();
      if (parts.size() > wanted)
        throw Failure("too many values to unpack (expected " + std::to_string(wanted) + ")");
      if (parts.size() < wanted) {
        throw Failure("not enough values to unpack (expected " + std::to_string(wanted) + ", got " +
                      std::to_string(parts.size()) + ")");
      }
      for (size_t i = 0; i < wanted; ++i) Assign(target.items[i], parts[i], scope, lookup);
      break;
    }
  }
}

Value Evaluator::MakeMacro(const MacroDefinition& macro, const ScopePtr& scope) {
  for (ScopePtr held = scope; held != nullptr && !held->captured; held = held->parent) {
    held->captured = true;
    captured_.push_back(held);
  }
  return Value::FromObject(std::make_shared<Macro>(*this, macro, scope));
}

Value Evaluator::InvokeMacro(const MacroDefinition& macro, const ScopePtr& scope,
                             Arguments& arguments) {
  const DepthGuard guard(depth_);
  const std::string who = "macro " + (macro.name.empty() ? "None" : QuotedText(macro.name));
  const size_t count = macro.parameters.size();
  const auto take = [&](const std::string& name) -> std::optional<Value> {
    const auto found = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [&](const auto& named) { return named.first == name; });
    if (found == arguments.named.end()) return std::nullopt;
    Value value = std::move(found->second);
    arguments.named.erase(found);
    return value;
  };
  const ScopePtr inner = Child(scope);
  const size_t first_default = count - macro.defaults.size();
  bool explicit_caller = false;
  for (size_t i = 0; i < count; ++i) {
    const std::string& name = macro.parameters[i];
    explicit_caller = explicit_caller || name == "caller";
    std::optional<Value> given;
    if (i < arguments.positional.size()) {
      given = arguments.positional[i];
    } else {
      given = take(name);
    }
    if (!given && i >= first_default) given = Eval(*macro.defaults[i - first_default], inner);
    inner->Set(name, given
                         ? *given
                         : Value::Undefined("parameter " + QuotedText(name) + " was not provided"));
  }
  if (macro.uses_caller && !explicit_caller) {
    inner->Set("caller", take("caller").value_or(Value::Undefined("No caller defined")));
  }
  if (macro.uses_kwargs) {
    Dict rest;
    for (const auto& [name, value] : arguments.named) rest.Set(Value::Str(name), value);
    inner->Set("kwargs", Value::FromDict(std::move(rest)));
  } else if (!arguments.named.empty()) {
    if (take("caller")) {
      throw Failure(who +
                    " was invoked with two values for the special caller argument. This is most "
                    "likely a bug.");
    }
    throw Failure(who + " takes no keyword argument " + QuotedText(arguments.named[0].first));
  }
  const size_t surplus = std::min(count, arguments.positional.size());
  if (macro.uses_varargs) {
    inner->Set("varargs",
               Value::Tuple({arguments.positional.begin() + static_cast<std::ptrdiff_t>(surplus),
                             arguments.positional.end()}));
  } else if (arguments.positional.size() > count) {
    throw Failure(who + " takes not more than " + std::to_string(count) + " argument(s)");
  }
  return Value::Str(Capture(macro.body, inner));
}

}  // namespace am::text::jinja

// Syntax tree of a template: what the parser builds and the evaluator walks. Plain data, immutable
// after parsing.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/text/jinja_value.h"

namespace am::text::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

enum class ExprKind : uint8_t {
  kConst,        // value
  kName,         // name
  kAttribute,    // a . name
  kItem,         // a [ b ]
  kSlice,        // only as the b of kItem: items {start, stop, step}, null where absent
  kCall,         // a (call)
  kFilter,       // a | name (call); a is null in {% filter %} and {% set x | f %}
  kTest,         // a is name (call)
  kList,         // items
  kTuple,        // items
  kDict,         // items: key, value, key, value ...
  kConditional,  // a if b else c (c may be null)
  kAnd,
  kOr,
  kNot,
  kNegative,
  kPositive,
  kCompare,  // a, then ops and items
  kConcat,   // items
  kBinary,   // a name b: + - * / // % **
};

struct CallArguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr rest;        // *rest
  ExprPtr rest_named;  // **rest_named
};

struct Expr {
  ExprKind kind = ExprKind::kConst;
  int line = 1;
  int depth = 1;  // of the tree below, bounded by the parser
  std::string name;
  Value value;
  ExprPtr a, b, c;
  std::vector<ExprPtr> items;
  std::vector<std::string> ops;
  CallArguments call;
};

// What `set`, `for` and `with` assign to.
struct Target {
  enum { kName, kNamespace, kTuple } what = kName;
  int line = 1;
  std::string name;
  std::string attribute;
  std::vector<Target> items;
};

struct Stmt;
using Block = std::vector<std::unique_ptr<Stmt>>;

struct MacroDefinition {
  std::string name;  // "" for a caller
  std::vector<std::string> parameters;
  std::vector<ExprPtr> defaults;  // of the last parameters
  bool uses_caller = false;
  bool uses_kwargs = false;
  bool uses_varargs = false;
  Block body;
};

enum class StmtKind : uint8_t {
  kText,        // text
  kOutput,      // exprs
  kIf,          // exprs are the conditions, blocks their bodies; one block more is the else
  kFor,         // target, exprs {iterable, filter or null}, blocks {body, else}
  kSet,         // target, exprs {value}
  kSetBlock,    // target, exprs {filter or null}, blocks {body}
  kWith,        // targets, exprs, blocks {body}
  kMacro,       // macro
  kCall,        // macro is the caller, exprs {call}
  kFilter,      // exprs {filter}, blocks {body}
  kGeneration,  // blocks {body}
  kBreak,
  kContinue,
};

struct Stmt {
  StmtKind kind = StmtKind::kText;
  int line = 1;
  std::string text;
  std::vector<Target> targets;
  std::vector<ExprPtr> exprs;
  std::vector<Block> blocks;
  MacroDefinition macro;
  bool recursive = false;
};

struct TemplateTree {
  Block body;
  bool has_generation = false;
};

// Throws SyntaxFailure.
TemplateTree ParseTemplate(const std::string& source);

}  // namespace am::text::jinja

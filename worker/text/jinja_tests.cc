// The `is` tests.
#include <cmath>

#include "worker/text/jinja_library.h"
#include "worker/text/jinja_unicode.h"

namespace am::text::jinja {
namespace {

using Test = bool (*)(const Value& value, const std::vector<Value>& arguments);

// 1 where the test compares with another value, 0 else.
struct Entry {
  size_t arguments;
  Test test;
};

bool IsRemainder(const Value& value, const Value& divisor, int64_t wanted) {
  return Equal(Binary("%", value, divisor), Value::Int(wanted));
}

template <Kind kKind>
bool IsKind(const Value& value, const std::vector<Value>&) {
  return value.kind() == kKind;
}

template <bool kWanted>
bool IsBool(const Value& value, const std::vector<Value>&) {
  return value.kind() == Kind::kBool && value.boolean() == kWanted;
}

const std::unordered_map<std::string, Entry>& Tests() {
  using Args = const std::vector<Value>&;
  static const Test equal = [](const Value& v, Args a) { return Equal(v, a[0]); };
  static const Test unequal = [](const Value& v, Args a) { return !Equal(v, a[0]); };
  static const Test less = [](const Value& v, Args a) { return Compare("<", v, a[0]); };
  static const Test less_equal = [](const Value& v, Args a) { return Compare("<=", v, a[0]); };
  static const Test greater = [](const Value& v, Args a) { return Compare(">", v, a[0]); };
  static const Test greater_equal = [](const Value& v, Args a) { return Compare(">=", v, a[0]); };
  static const std::unordered_map<std::string, Entry> table = {
      {"defined", {0, [](const Value& v, Args) { return !v.is_undefined(); }}},
      {"undefined", {0, IsKind<Kind::kUndefined>}},
      {"none", {0, IsKind<Kind::kNone>}},
      {"boolean", {0, IsKind<Kind::kBool>}},
      {"true", {0, IsBool<true>}},
      {"false", {0, IsBool<false>}},
      {"integer", {0, IsKind<Kind::kInt>}},
      {"float", {0, IsKind<Kind::kFloat>}},
      {"string", {0, IsKind<Kind::kString>}},
      {"mapping", {0, IsKind<Kind::kDict>}},
      {"number", {0, [](const Value& v, Args) { return v.is_number(); }}},
      {"sequence",
       {0,
        [](const Value& v, Args) {
          return v.is_undefined() || v.is_string() || v.is_dict() || v.kind() == Kind::kList ||
                 v.kind() == Kind::kTuple || v.kind() == Kind::kRange;
        }}},
      {"iterable", {0, [](const Value& v, Args) { return Iterable(v); }}},
      {"callable",
       {0,
        [](const Value& v, Args) {
          return v.is_undefined() || (v.kind() == Kind::kObject && v.object()->callable());
        }}},
      {"escaped", {0, [](const Value& v, Args) { return v.markup(); }}},
      {"lower", {0, [](const Value& v, Args) { return IsLower(ToText(v)); }}},
      {"upper", {0, [](const Value& v, Args) { return IsUpper(ToText(v)); }}},
      {"odd", {0, [](const Value& v, Args) { return IsRemainder(v, Value::Int(2), 1); }}},
      {"even", {0, [](const Value& v, Args) { return IsRemainder(v, Value::Int(2), 0); }}},
      {"filter", {0, [](const Value& v, Args) { return HasFilter(ToText(v)); }}},
      {"test", {0, [](const Value& v, Args) { return HasTest(ToText(v)); }}},
      {"divisibleby", {1, [](const Value& v, Args a) { return IsRemainder(v, a[0], 0); }}},
      {"sameas", {1, [](const Value& v, Args a) { return Identical(v, a[0]); }}},
      {"in", {1, [](const Value& v, Args a) { return Contains(a[0], v); }}},
      {"==", {1, equal}},
      {"eq", {1, equal}},
      {"equalto", {1, equal}},
      {"!=", {1, unequal}},
      {"ne", {1, unequal}},
      {"<", {1, less}},
      {"lt", {1, less}},
      {"lessthan", {1, less}},
      {"<=", {1, less_equal}},
      {"le", {1, less_equal}},
      {">", {1, greater}},
      {"gt", {1, greater}},
      {"greaterthan", {1, greater}},
      {">=", {1, greater_equal}},
      {"ge", {1, greater_equal}},
  };
  return table;
}

}  // namespace

bool HasTest(const std::string& name) { return Tests().contains(name); }

bool ApplyTest(const std::string& name, const Value& value, Arguments& arguments) {
  const auto found = Tests().find(name);
  if (found == Tests().end()) throw Failure("No test named '" + name + "'.");
  for (auto& [unused, argument] : arguments.named)
    arguments.positional.push_back(std::move(argument));
  const Entry& entry = found->second;
  if (arguments.positional.size() != entry.arguments) {
    throw Failure("the test '" + name + "' takes " + std::to_string(entry.arguments) +
                  " arguments, got " + std::to_string(arguments.positional.size()));
  }
  return entry.test(value, arguments.positional);
}

}  // namespace am::text::jinja

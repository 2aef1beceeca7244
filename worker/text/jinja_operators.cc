// Operators, attribute access and slices, with Python's rules and words.
#include <algorithm>
#include <cmath>

#include "worker/text/jinja_format.h"
#include "worker/text/jinja_library.h"
#include "worker/text/jinja_unicode.h"

namespace am::text::jinja {
namespace {

[[noreturn]] void FailOperands(const std::string& op, const Value& left, const Value& right) {
  if (left.is_undefined()) FailUndefined(left);
  if (right.is_undefined()) FailUndefined(right);
  if (op == "+" && (left.is_string() || right.is_string()) && left.is_string()) {
    throw Failure("can only concatenate str (not \"" + TypeName(right) + "\") to str");
  }
  throw Failure("unsupported operand type(s) for " + op + ": '" + TypeName(left) + "' and '" +
                TypeName(right) + "'");
}

[[noreturn]] void FailOverflow() {
  throw Failure("an integer of the template does not fit 64 bits");
}

int64_t FloorDivide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? quotient - 1 : quotient;
}

double FloorModulo(double a, double b) {
  const double remainder = std::fmod(a, b);
  return remainder != 0 && (remainder < 0) != (b < 0)
             ? remainder + b
             : std::copysign(remainder, remainder == 0 ? b : remainder);
}

Value IntegerPower(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) throw Failure("0.0 cannot be raised to a negative power");
    return Value::Float(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  bool overflow = false;
  for (int64_t left = exponent, square = base; left > 0 && !overflow; left >>= 1) {
    if ((left & 1) != 0) overflow = __builtin_mul_overflow(result, square, &result);
    if (left > 1 && !overflow) overflow = __builtin_mul_overflow(square, square, &square);
  }
  if (overflow) FailOverflow();
  return Value::Int(result);
}

Value IntegerOperation(const std::string& op, int64_t a, int64_t b) {
  if (op == "**") return IntegerPower(a, b);
  int64_t result = 0;
  bool overflow = false;
  if (op == "+") {
    overflow = __builtin_add_overflow(a, b, &result);
  } else if (op == "-") {
    overflow = __builtin_sub_overflow(a, b, &result);
  } else if (op == "*") {
    overflow = __builtin_mul_overflow(a, b, &result);
  } else if (b == 0) {
    throw Failure(op == "/" ? "division by zero" : "integer division or modulo by zero");
  } else if (op == "/") {
    return Value::Float(static_cast<double>(a) / static_cast<double>(b));
  } else if (b == -1) {  // the one quotient that may overflow
    overflow = op == "//" && __builtin_sub_overflow(int64_t{0}, a, &result);
  } else {
    result = op == "//" ? FloorDivide(a, b) : a - FloorDivide(a, b) * b;
  }
  if (overflow) FailOverflow();
  return Value::Int(result);
}

Value RealOperation(const std::string& op, double a, double b) {
  if (op == "+") return Value::Float(a + b);
  if (op == "-") return Value::Float(a - b);
  if (op == "*") return Value::Float(a * b);
  if (op == "**") {
    if (a < 0 && b != std::floor(b)) throw Failure("complex numbers are not supported");
    return Value::Float(std::pow(a, b));
  }
  if (b == 0)
    throw Failure(op == "/"   ? "float division by zero"
                  : op == "%" ? "float modulo"
                              : "float floor division by zero");
  if (op == "/") return Value::Float(a / b);
  if (op == "//") return Value::Float(std::floor((a - FloorModulo(a, b)) / b + 0.25));
  return Value::Float(FloorModulo(a, b));
}

Value Repeat(const Value& sequence, int64_t times) {
  times = std::max<int64_t>(times, 0);
  if (sequence.is_string()) {
    TextBuilder out;
    if (!sequence.text().empty()) {
      for (int64_t i = 0; i < times; ++i) out += sequence.text();
    }
    return Value::Str(out.Take(), sequence.markup());
  }
  std::vector<Value> items;
  const auto& part = sequence.sequence().items;
  if (!part.empty()) {
    for (int64_t i = 0; i < times; ++i) {
      ChargeWork(1 + part.size());
      items.insert(items.end(), part.begin(), part.end());
    }
  }
  return Value::Make(sequence.kind(), std::move(items));
}

bool Repeatable(const Value& value) {
  return value.is_string() || value.kind() == Kind::kList || value.kind() == Kind::kTuple;
}

Value Add(const Value& left, const Value& right) {
  if (left.is_string() && right.is_string()) {
    if (left.markup() != right.markup()) {
      return Value::Str(left.markup() ? left.text() + EscapeHtml(right.text())
                                      : EscapeHtml(left.text()) + right.text(),
                        true);
    }
    return Value::Str(left.text() + right.text(), left.markup());
  }
  if (left.kind() == right.kind() && (left.kind() == Kind::kList || left.kind() == Kind::kTuple)) {
    std::vector<Value> items = left.sequence().items;
    const auto& more = right.sequence().items;
    items.insert(items.end(), more.begin(), more.end());
    return Value::Make(left.kind(), std::move(items));
  }
  FailOperands("+", left, right);
}

// Position in a sequence of `length`, or nothing when out of range.
std::optional<size_t> Position(int64_t index, int64_t length) {
  if (index < 0) index += length;
  if (index < 0 || index >= length) return std::nullopt;
  return static_cast<size_t>(index);
}

Value UndefinedAttribute(const Value& object, const std::string& name) {
  std::string type = TypeName(object);
  if (object.is_none()) return Value::Undefined("'None' has no attribute " + QuotedText(name));
  return Value::Undefined("'" + type + " object' has no attribute " + QuotedText(name));
}

std::optional<Value> FindAttribute(const Value& object, const std::string& name) {
  if (object.kind() == Kind::kObject) return object.object()->Attribute(name);
  if (object.kind() == Kind::kTuple && !object.sequence().label.empty()) {  // a group of groupby
    if (name == "grouper") return object.sequence().items[0];
    if (name == "list") return object.sequence().items[1];
  }
  return MethodOf(object, name);
}

std::optional<Value> FindItem(const Value& object, const Value& key) {
  if (object.is_dict()) {
    const bool hashable = key.kind() != Kind::kList && !key.is_dict();
    const Value* found = hashable ? object.dict().Find(key) : nullptr;
    return found != nullptr ? std::optional<Value>(*found) : std::nullopt;
  }
  if (!key.is_int()) return std::nullopt;
  if (object.is_string()) {
    const auto at = Position(key.integer(), CountCodePoints(object.text()));
    if (!at) return std::nullopt;
    const size_t begin = OffsetOf(object.text(), static_cast<int64_t>(*at));
    const std::string_view rest = std::string_view(object.text()).substr(begin);
    return Value::Str(std::string(rest.substr(0, OffsetOf(rest, 1))), object.markup());
  }
  if (object.kind() == Kind::kList || object.kind() == Kind::kTuple ||
      object.kind() == Kind::kRange) {
    const auto& items = object.sequence().items;
    const auto at = Position(key.integer(), static_cast<int64_t>(items.size()));
    return at ? std::optional<Value>(items[*at]) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

Value GetAttribute(const Value& object, const std::string& name) {
  if (object.is_undefined()) FailUndefined(object);
  if (auto found = FindAttribute(object, name)) {
    if (name[0] != '_') return *found;
    return Value::Undefined("access to attribute " + QuotedText(name) + " of " +
                            QuotedText(TypeName(object)) + " object is unsafe.");
  }
  if (object.is_dict()) {
    if (const Value* item = object.dict().Find(name)) return *item;
  }
  return UndefinedAttribute(object, name);
}

Value GetItem(const Value& object, const Value& key) {
  if (object.is_undefined()) FailUndefined(object);
  if (auto found = FindItem(object, key)) return *found;
  if (key.is_string()) {
    auto attribute = FindAttribute(object, key.text());
    if (attribute && key.text()[0] != '_') return *attribute;
    return UndefinedAttribute(object, key.text());
  }
  const std::string owner = object.is_none() ? "None" : TypeName(object) + " object";
  return Value::Undefined(owner + " has no element " + Repr(key));
}

Value GetSlice(const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.is_undefined()) FailUndefined(object);
  const bool sliceable = object.is_string() || object.kind() == Kind::kList ||
                         object.kind() == Kind::kTuple || object.kind() == Kind::kRange;
  if (!sliceable) {
    throw Failure(object.is_dict() ? "unhashable type: 'slice'"
                                   : "'" + TypeName(object) + "' object is not subscriptable");
  }
  for (const Value* bound : {&start, &stop, &step}) {
    if (!bound->is_none() && !bound->is_int())
      throw Failure("slice indices must be integers or None");
  }
  const int64_t stride = step.is_none() ? 1 : step.integer();
  if (stride == 0) throw Failure("slice step cannot be zero");
  const int64_t length = Length(object);
  const auto clamp = [&](const Value& bound, int64_t otherwise) {
    if (bound.is_none()) return otherwise;
    int64_t index = bound.integer();
    if (index < 0) index = std::max<int64_t>(index + length, stride < 0 ? -1 : 0);
    return std::min<int64_t>(index, stride < 0 ? length - 1 : length);
  };
  const int64_t first = clamp(start, stride < 0 ? length - 1 : 0);
  const int64_t last = clamp(stop, stride < 0 ? -1 : length);
  if (object.is_string() && stride == 1) {
    const std::string& text = object.text();
    const size_t begin = OffsetOf(text, first);
    const std::string_view rest = std::string_view(text).substr(begin);
    return Value::Str(
        std::string(rest.substr(0, OffsetOf(rest, std::max<int64_t>(last - first, 0)))),
        object.markup());
  }
  std::vector<Value> items;
  std::u32string picked;
  const std::u32string points = object.is_string() ? Decode(object.text()) : std::u32string();
  for (int64_t i = first; stride > 0 ? i < last : i > last;) {
    if (object.is_string()) {
      picked += points[static_cast<size_t>(i)];
    } else {
      items.push_back(object.sequence().items[static_cast<size_t>(i)]);
    }
    if (__builtin_add_overflow(i, stride, &i)) break;
  }
  if (object.is_string()) return Value::Str(Encode(picked), object.markup());
  std::string label;
  if (object.kind() == Kind::kRange) label = "range";
  return Value::Make(object.kind(), std::move(items), label);
}

Value Call(const Value& callee, Arguments& arguments) {
  if (callee.is_undefined()) FailUndefined(callee);
  if (callee.kind() != Kind::kObject)
    throw Failure("'" + TypeName(callee) + "' object is not callable");
  return callee.object()->Call(arguments);
}

Value Binary(const std::string& op, const Value& left, const Value& right) {
  if (left.is_int() && right.is_int()) return IntegerOperation(op, left.integer(), right.integer());
  if (left.is_number() && right.is_number()) return RealOperation(op, left.real(), right.real());
  if (left.is_undefined()) FailUndefined(left);
  if (op == "%" && left.is_string())
    return Value::Str(PercentFormat(left.text(), right), left.markup());
  if (right.is_undefined()) FailUndefined(right);
  if (op == "+") return Add(left, right);
  if (op == "*" && Repeatable(left) && right.is_int()) return Repeat(left, right.integer());
  if (op == "*" && Repeatable(right) && left.is_int()) return Repeat(right, left.integer());
  FailOperands(op == "**" ? "** or pow()" : op, left, right);
}

bool Compare(const std::string& op, const Value& left, const Value& right) {
  if (op == "==") return Equal(left, right);
  if (op == "!=") return !Equal(left, right);
  if (op == "in") return Contains(right, left);
  if (op == "not in") return !Contains(right, left);
  const bool nan = left.is_number() && right.is_number() &&
                   (std::isnan(left.real()) || std::isnan(right.real()));
  if (nan) return false;
  if (op == "<") return Less(left, right, "<");
  if (op == ">") return Less(right, left, ">");
  if (op == "<=") return !Less(right, left, "<=");
  return !Less(left, right, ">=");
}

}  // namespace am::text::jinja

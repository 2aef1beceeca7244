// Python's protocols over values: truth, printing, equality, order, iteration, hashing.
#include <charconv>
#include <cmath>

#include "worker/text/jinja_unicode.h"
#include "worker/text/jinja_value.h"
#include "worker/text/utf8.h"

namespace am::text::jinja {

std::string TypeName(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return value.markup() ? "Markup" : "str";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kRange:
      return "range";
    case Kind::kView:
      return value.sequence().label;
    case Kind::kIterator:
      return "generator";
    case Kind::kDict:
      return "dict";
    case Kind::kObject:
      return value.object()->TypeName();
  }
  return "";
}

bool Truthy(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return value.integer() != 0;
    case Kind::kFloat:
      return value.real() != 0;
    case Kind::kString:
      return !value.text().empty();
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
    case Kind::kView:
      return !value.sequence().items.empty();
    case Kind::kIterator:
      return true;
    case Kind::kDict:
      return value.dict().size() != 0;
    case Kind::kObject:
      return value.object()->Length().value_or(1) != 0;
  }
  return false;
}

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto scientific =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::scientific);
  const std::string text(buffer, scientific.ptr);
  const size_t e = text.find('e');
  const int exponent = std::stoi(text.substr(e + 1));
  if (exponent < -4 || exponent >= 16)
    return text;  // Python's form too: two digits of exponent at least
  const auto fixed =
      std::to_chars(buffer, buffer + sizeof(buffer), value, std::chars_format::fixed);
  std::string plain(buffer, fixed.ptr);
  if (plain.find('.') == std::string::npos) plain += ".0";
  return plain;
}

namespace {

void AppendRepr(TextBuilder& out, const Value& value);

void AppendItems(TextBuilder& out, const std::vector<Value>& items) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += ", ";
    AppendRepr(out, items[i]);
  }
}

void AppendRepr(TextBuilder& out, const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      out += "Undefined";
      break;
    case Kind::kString:
      if (value.markup()) out += "Markup(";
      out += QuotedText(value.text());
      if (value.markup()) out += ')';
      break;
    case Kind::kList:
      out += '[';
      AppendItems(out, value.sequence().items);
      out += ']';
      break;
    case Kind::kTuple:
      out += '(';
      AppendItems(out, value.sequence().items);
      if (value.sequence().items.size() == 1) out += ',';
      out += ')';
      break;
    case Kind::kRange:
      out += value.sequence().label;
      break;
    case Kind::kView:
      out += value.sequence().label;
      out += "([";
      AppendItems(out, value.sequence().items);
      out += "])";
      break;
    case Kind::kIterator:
      out += "<generator object>";
      break;
    case Kind::kDict: {
      out += '{';
      bool first = true;
      for (const auto& [key, item] : value.dict().items()) {
        if (!first) out += ", ";
        first = false;
        AppendRepr(out, key);
        out += ": ";
        AppendRepr(out, item);
      }
      out += '}';
      break;
    }
    case Kind::kObject:
      out += value.object()->Repr();
      break;
    default:
      out += ToText(value);
  }
}

}  // namespace

std::string Repr(const Value& value) {
  TextBuilder out;
  AppendRepr(out, value);
  return out.Take();
}

std::string ToText(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return "";
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return value.boolean() ? "True" : "False";
    case Kind::kInt:
      return std::to_string(value.integer());
    case Kind::kFloat:
      return FloatText(value.real());
    case Kind::kString:
      return value.text();
    default:
      return Repr(value);
  }
}

bool Identical(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kNone:
      return true;
    case Kind::kBool:
    case Kind::kInt:
      return a.integer() == b.integer();
    case Kind::kString:
      return a.identity() == b.identity() || a.text() == b.text();
    case Kind::kObject:
      return a.object() == b.object();
    default:
      return a.identity() != nullptr && a.identity() == b.identity();
  }
}

bool Equal(const Value& a, const Value& b) {
  ChargeWork(1);
  if (a.is_number() && b.is_number()) {
    return a.is_int() && b.is_int() ? a.integer() == b.integer() : a.real() == b.real();
  }
  if (a.is_string() && b.is_string()) return a.text() == b.text();
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kObject:
      return a.object() == b.object();
    case Kind::kIterator:
      return a.identity() == b.identity();
    case Kind::kDict: {
      if (a.identity() == b.identity()) return true;
      if (a.dict().size() != b.dict().size()) return false;
      for (const auto& [key, value] : a.dict().items()) {
        const Value* other = b.dict().Find(key);
        if (other == nullptr || !Equal(value, *other)) return false;
      }
      return true;
    }
    default: {
      if (a.identity() == b.identity()) return true;
      const auto& left = a.sequence().items;
      const auto& right = b.sequence().items;
      if (left.size() != right.size()) return false;
      for (size_t i = 0; i < left.size(); ++i) {
        if (!Equal(left[i], right[i])) return false;
      }
      return true;
    }
  }
}

bool Less(const Value& a, const Value& b, const char* op) {
  ChargeWork(1);
  if (a.is_undefined()) FailUndefined(a);
  if (b.is_undefined()) FailUndefined(b);
  if (a.is_int() && b.is_int()) return a.integer() < b.integer();
  if (a.is_number() && b.is_number()) return a.real() < b.real();
  if (a.is_string() && b.is_string()) return a.text() < b.text();  // UTF-8 sorts as code points do
  if (a.kind() == b.kind() && (a.kind() == Kind::kList || a.kind() == Kind::kTuple)) {
    const auto& left = a.sequence().items;
    const auto& right = b.sequence().items;
    for (size_t i = 0; i < left.size() && i < right.size(); ++i) {
      if (!Equal(left[i], right[i])) return Less(left[i], right[i], op);
    }
    return left.size() < right.size();
  }
  throw Failure(std::string("'") + op + "' not supported between instances of '" + TypeName(a) +
                "' and '" + TypeName(b) + "'");
}

bool Contains(const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) {
      if (item.is_undefined()) FailUndefined(item);
      throw Failure("'in <string>' requires string as left operand, not " + TypeName(item));
    }
    ChargeWork(1 + container.text().size() / 16);
    return container.text().find(item.text()) != std::string::npos;
  }
  if (container.is_dict()) return container.dict().Find(item) != nullptr;
  if (!Iterable(container))
    throw Failure("argument of type '" + TypeName(container) + "' is not iterable");
  for (const Value& candidate : Iterate(container)) {
    if (Equal(candidate, item)) return true;
  }
  return false;
}

std::optional<int64_t> LengthOf(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return CountCodePoints(value.text());
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
    case Kind::kView:
      return static_cast<int64_t>(value.sequence().items.size());
    case Kind::kDict:
      return static_cast<int64_t>(value.dict().size());
    case Kind::kObject:
      return value.object()->Length();
    default:
      return std::nullopt;
  }
}

int64_t Length(const Value& value) {
  if (const auto length = LengthOf(value)) return *length;
  throw Failure("object of type '" + TypeName(value) + "' has no len()");
}

bool Iterable(const Value& value) {
  return value.is_undefined() || value.is_string() || value.is_sequence() || value.is_dict();
}

std::vector<Value> Iterate(const Value& value) {
  std::vector<Value> items;
  switch (value.kind()) {
    case Kind::kUndefined:
      break;
    case Kind::kString: {
      const std::string& text = value.text();
      for (size_t at = 0; at < text.size();) {
        const size_t begin = at;
        NextCodePoint(text, at);
        items.push_back(Value::Str(text.substr(begin, at - begin)));
      }
      break;
    }
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kRange:
    case Kind::kView:
      items = value.sequence().items;
      break;
    case Kind::kIterator: {
      Sequence& iterator = value.sequence();
      items.assign(iterator.items.begin() + static_cast<std::ptrdiff_t>(iterator.next),
                   iterator.items.end());
      iterator.next = iterator.items.size();
      break;
    }
    case Kind::kDict:
      for (const auto& [key, item] : value.dict().items()) items.push_back(key);
      break;
    default:
      throw Failure("'" + TypeName(value) + "' object is not iterable");
  }
  ChargeWork(1 + items.size());
  return items;
}

std::string HashText(const Value& value) {
  switch (value.kind()) {
    case Kind::kString:
      return "s" + value.text();
    case Kind::kNone:
      return "N";
    case Kind::kUndefined:
      return "U";
    case Kind::kBool:
    case Kind::kInt:
      return "n" + std::to_string(value.integer());
    case Kind::kFloat: {
      const double real = value.real();
      if (real == std::floor(real) && std::fabs(real) < 9e18) {
        return "n" + std::to_string(static_cast<int64_t>(real));
      }
      return "n" + FloatText(real);
    }
    case Kind::kTuple: {
      TextBuilder out;
      out += 't';
      for (const Value& item : value.sequence().items) {
        const std::string part = HashText(item);
        out += std::to_string(part.size());
        out += ':';
        out += part;
      }
      return out.Take();
    }
    case Kind::kObject:
      return "o" + std::to_string(reinterpret_cast<uintptr_t>(value.object().get()));
    default:
      throw Failure("unhashable type: '" + TypeName(value) + "'");
  }
}

void FailUndefined(const Value& undefined) { throw Failure(undefined.text()); }

}  // namespace am::text::jinja

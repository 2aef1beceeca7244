#include "worker/text/jinja_format.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>

#include "worker/text/jinja_library.h"
#include "worker/text/jinja_unicode.h"
#include "worker/text/utf8.h"

namespace am::text::jinja {
namespace {

constexpr int64_t kMaxWidth = 1 << 20;
constexpr int64_t kMaxPrecision = 400;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Digits at `at`, or nothing read: returns -1.
int64_t ReadNumber(const std::string& text, size_t& at) {
  if (at >= text.size() || !IsDigit(text[at])) return -1;
  int64_t number = 0;
  while (at < text.size() && IsDigit(text[at])) {
    number = number * 10 + (text[at++] - '0');
    if (number > kMaxWidth) throw Failure("a width or precision in a format string is too large");
  }
  return number;
}

// What both mini languages agree on.
struct Layout {
  std::string fill = " ";
  char align = '\0';  // '<' '>' '^' '='
  char sign = '-';
  bool alternate = false;
  bool zero = false;
  char group = '\0';
  int64_t width = 0;
  int64_t precision = -1;
  char type = '\0';
};

std::string Pad(const std::string& prefix, const std::string& body, const Layout& layout,
                char default_align) {
  const int64_t length = CountCodePoints(prefix) + CountCodePoints(body);
  const int64_t missing = std::max<int64_t>(layout.width - length, 0);
  const char align = layout.align != '\0' ? layout.align : default_align;
  const int64_t left = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  std::string before;
  std::string after;
  for (int64_t i = 0; i < missing; ++i) (i < left ? before : after) += layout.fill;
  return align == '=' ? prefix + before + body : before + prefix + body + after;
}

std::string Group(const std::string& digits, char separator) {
  size_t whole = 0;
  while (whole < digits.size() && IsDigit(digits[whole])) ++whole;
  std::string out;
  for (size_t i = 0; i < whole; ++i) {
    if (i > 0 && (whole - i) % 3 == 0) out += separator;
    out += digits[i];
  }
  return out + digits.substr(whole);
}

std::string SignOf(bool negative, char sign) {
  if (negative) return "-";
  return sign == '-' ? "" : std::string(1, sign);
}

std::string FormatInteger(int64_t value, const Layout& layout) {
  const bool negative = value < 0;
  uint64_t magnitude = negative ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  const char type = layout.type == '\0' ? 'd' : layout.type;
  if (type == 'c') {
    std::string text;
    if (value < 0 || value > 0x10FFFF) throw Failure("%c arg not in range(0x110000)");
    AppendUtf8(text, static_cast<char32_t>(value));
    return Pad("", text, layout, '<');
  }
  const unsigned base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
  std::string digits;
  do {
    const auto digit = static_cast<char>(magnitude % base);
    digits += static_cast<char>(digit < 10 ? '0' + digit : (type == 'X' ? 'A' : 'a') + digit - 10);
    magnitude /= base;
  } while (magnitude != 0);
  std::reverse(digits.begin(), digits.end());
  while (layout.precision > static_cast<int64_t>(digits.size())) digits.insert(0, "0");
  if (layout.group != '\0') digits = Group(digits, layout.group);
  std::string prefix = SignOf(negative, layout.sign);
  if (layout.alternate && base != 10) prefix += std::string("0") + type;
  return Pad(prefix, digits, layout, '>');
}

std::string FormatReal(double value, Layout layout) {
  const bool negative = std::signbit(value) && !std::isnan(value);
  const double magnitude = std::fabs(value);
  char type = layout.type;
  std::string digits;
  if (std::isinf(magnitude) || std::isnan(magnitude)) {
    digits = std::isnan(magnitude) ? "nan" : "inf";
    if (type == 'F' || type == 'E' || type == 'G') digits = Upper(digits);
  } else if (type == '\0' && layout.precision < 0) {
    digits = FloatText(magnitude);
  } else {
    if (layout.precision > kMaxPrecision)
      throw Failure("a precision in a format string is too large");
    const auto precision = static_cast<int>(layout.precision < 0 ? 6 : layout.precision);
    const bool percent = type == '%';
    const bool repr = type == '\0';
    if (percent) type = 'f';
    if (repr || type == 'n') type = 'g';
    const std::string pattern = std::string("%") + (layout.alternate ? "#" : "") + ".*" + type;
    char buffer[1024];
    std::snprintf(buffer, sizeof(buffer), pattern.c_str(), precision,
                  percent ? magnitude * 100 : magnitude);
    digits = buffer;
    if (repr && digits.find_first_of(".e") == std::string::npos) digits += ".0";
    if (percent) digits += '%';
  }
  if (layout.group != '\0') digits = Group(digits, layout.group);
  return Pad(SignOf(negative, layout.sign), digits, layout, '>');
}

std::string FormatText(const std::string& text, const Layout& layout, char default_align) {
  std::string cut = text;
  if (layout.precision >= 0) cut = text.substr(0, OffsetOf(text, layout.precision));
  return Pad("", cut, layout, default_align);
}

Layout ParseSpec(const std::string& spec) {
  Layout layout;
  size_t at = 0;
  const auto is_align = [](char c) { return c == '<' || c == '>' || c == '^' || c == '='; };
  const size_t first = OffsetOf(spec, 1);
  if (first < spec.size() && is_align(spec[first])) {
    layout.fill = spec.substr(0, first);
    layout.align = spec[first];
    at = first + 1;
  } else if (!spec.empty() && is_align(spec[0])) {
    layout.align = spec[at++];
  }
  if (at < spec.size() && (spec[at] == '+' || spec[at] == '-' || spec[at] == ' '))
    layout.sign = spec[at++];
  if (at < spec.size() && spec[at] == '#') layout.alternate = ++at > 0;
  if (at < spec.size() && spec[at] == '0') {
    layout.zero = ++at > 0;
    if (layout.align == '\0') {
      layout.align = '=';
      layout.fill = "0";
    }
  }
  layout.width = std::max<int64_t>(ReadNumber(spec, at), 0);
  if (at < spec.size() && (spec[at] == ',' || spec[at] == '_')) layout.group = spec[at++];
  if (at < spec.size() && spec[at] == '.') {
    layout.precision = ReadNumber(spec, ++at);
    if (layout.precision < 0) throw Failure("Format specifier missing precision");
  }
  if (at < spec.size()) layout.type = spec[at++];
  if (at != spec.size()) throw Failure("Invalid format specifier '" + spec + "'");
  return layout;
}

int64_t IntegerOf(const Value& value, char type) {
  if (value.is_undefined()) FailUndefined(value);
  if (value.is_int()) return value.integer();
  const bool decimal = type == 'd' || type == 'i' || type == 'u';
  if (decimal && value.kind() == Kind::kFloat && std::fabs(value.real()) < 9.2e18) {
    return static_cast<int64_t>(value.real());
  }
  throw Failure(std::string("%") + type + " format: " + (decimal ? "a real number" : "an integer") +
                " is required, not " + TypeName(value));
}

double RealOf(const Value& value) {
  if (value.is_undefined()) FailUndefined(value);
  if (!value.is_number()) throw Failure("must be real number, not " + TypeName(value));
  return value.real();
}

std::string FormatDirective(Layout layout, const Value& value) {
  if (layout.zero && layout.align == '\0') {
    layout.align = '=';
    layout.fill = "0";
  }
  switch (layout.type) {
    case 's':
      return FormatText(ToText(value),
                        {.fill = " ",
                         .align = layout.align == '<' ? '<' : '>',
                         .width = layout.width,
                         .precision = layout.precision},
                        '>');
    case 'r':
      return FormatText(Repr(value),
                        {.fill = " ",
                         .align = layout.align == '<' ? '<' : '>',
                         .width = layout.width,
                         .precision = layout.precision},
                        '>');
    case 'c':
      if (value.is_string() && CountCodePoints(value.text()) == 1) {
        layout.precision = -1;
        return FormatText(value.text(), layout, '>');
      }
      return FormatInteger(IntegerOf(value, 'c'), layout);
    case 'd':
    case 'i':
    case 'u': {
      const int64_t integer = IntegerOf(value, layout.type);
      layout.type = 'd';
      return FormatInteger(integer, layout);
    }
    case 'x':
    case 'X':
    case 'o':
      return FormatInteger(IntegerOf(value, layout.type), layout);
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
      return FormatReal(RealOf(value), layout);
    default:
      throw Failure("unsupported format character '" + std::string(1, layout.type) +
                    "' in a % format");
  }
}

}  // namespace

std::string PercentFormat(const std::string& format, const Value& values) {
  const std::vector<Value> positional =
      values.kind() == Kind::kTuple ? values.sequence().items : std::vector<Value>{values};
  size_t used = 0;
  bool by_name = false;
  TextBuilder out;
  const auto next = [&]() -> const Value& {
    if (used >= positional.size()) throw Failure("not enough arguments for format string");
    return positional[used++];
  };
  for (size_t at = 0; at < format.size();) {
    if (format[at] != '%') {
      const size_t end = std::min(format.find('%', at), format.size());
      out += std::string_view(format).substr(at, end - at);
      at = end;
      continue;
    }
    ++at;
    Layout layout;
    const Value* named = nullptr;
    if (at < format.size() && format[at] == '(') {
      const size_t close = format.find(')', at);
      if (close == std::string::npos) throw Failure("incomplete format key");
      if (!values.is_dict()) throw Failure("format requires a mapping");
      const std::string key = format.substr(at + 1, close - at - 1);
      named = values.dict().Find(key);
      if (named == nullptr) throw Failure("KeyError: " + QuotedText(key));
      by_name = true;
      at = close + 1;
    }
    for (bool flag = true; flag && at < format.size();) {
      switch (format[at]) {
        case '-':
          layout.align = '<';
          break;
        case '+':
          layout.sign = '+';
          break;
        case ' ':
          layout.sign = layout.sign == '+' ? '+' : ' ';
          break;
        case '#':
          layout.alternate = true;
          break;
        case '0':
          layout.zero = true;
          break;
        default:
          flag = false;
      }
      if (flag) ++at;
    }
    if (at < format.size() && format[at] == '*') {
      layout.width = IntegerOf(next(), 'd');
      if (layout.width < 0) layout.align = '<', layout.width = -layout.width;
      if (layout.width > kMaxWidth) throw Failure("a width in a format string is too large");
      ++at;
    } else {
      layout.width = std::max<int64_t>(ReadNumber(format, at), 0);
    }
    if (at < format.size() && format[at] == '.') {
      ++at;
      if (at < format.size() && format[at] == '*') {
        layout.precision = std::max<int64_t>(IntegerOf(next(), 'd'), 0);
        ++at;
      } else {
        layout.precision = std::max<int64_t>(ReadNumber(format, at), 0);
      }
    }
    while (at < format.size() && (format[at] == 'l' || format[at] == 'h' || format[at] == 'L'))
      ++at;
    if (at >= format.size()) throw Failure("incomplete format");
    layout.type = format[at++];
    if (layout.type == '%') {
      out += '%';
    } else {
      out += FormatDirective(layout, named != nullptr ? *named : next());
    }
  }
  const bool leftover_allowed = by_name || values.is_dict() || values.kind() == Kind::kList;
  if (used < positional.size() &&
      !(leftover_allowed && values.kind() != Kind::kTuple && used == 0)) {
    throw Failure("not all arguments converted during string formatting");
  }
  return out.Take();
}

std::string FormatValue(const Value& value, const std::string& spec) {
  if (value.is_undefined() && !spec.empty())
    throw Failure("unsupported format string passed to Undefined.__format__");
  if (spec.empty()) return ToText(value);
  const Layout layout = ParseSpec(spec);
  if (value.is_string()) {
    if (layout.type != '\0' && layout.type != 's') {
      throw Failure("Unknown format code '" + std::string(1, layout.type) +
                    "' for object of type 'str'");
    }
    return FormatText(value.text(), layout, '<');
  }
  const bool real_type =
      layout.type != '\0' && std::string("eEfFgG%").find(layout.type) != std::string::npos;
  if (value.kind() == Kind::kFloat || (value.is_int() && real_type)) {
    if (layout.type != '\0' && !real_type && layout.type != 'n') {
      throw Failure("Unknown format code '" + std::string(1, layout.type) +
                    "' for object of type 'float'");
    }
    return FormatReal(value.real(), layout);
  }
  if (value.kind() == Kind::kBool && layout.type == '\0')
    return FormatText(ToText(value), layout, '>');
  if (value.is_int()) {
    if (layout.precision >= 0) throw Failure("Precision not allowed in integer format specifier");
    if (layout.type != '\0' && std::string("bcdoxXn").find(layout.type) == std::string::npos) {
      throw Failure("Unknown format code '" + std::string(1, layout.type) +
                    "' for object of type 'int'");
    }
    Layout integer = layout;
    if (integer.type == 'n') integer.type = 'd';
    return FormatInteger(value.integer(), integer);
  }
  throw Failure("unsupported format string passed to " + TypeName(value) + ".__format__");
}

namespace {

// One rendering of str.format: keeps the running number of `{}` fields.
class BraceFormatter {
 public:
  explicit BraceFormatter(const Arguments& arguments) : arguments_(arguments) {}

  std::string Format(const std::string& format, int level) {
    if (level < 0) throw Failure("Max string recursion exceeded");
    TextBuilder out;
    for (size_t at = 0; at < format.size();) {
      const char c = format[at];
      if (c != '{' && c != '}') {
        const size_t end = std::min(format.find_first_of("{}", at), format.size());
        out += std::string_view(format).substr(at, end - at);
        at = end;
      } else if (at + 1 < format.size() && format[at + 1] == c) {
        out += c;
        at += 2;
      } else if (c == '}') {
        throw Failure("Single '}' encountered in format string");
      } else {
        const size_t end = FieldEnd(format, at);
        out += Field(format.substr(at + 1, end - at - 1), level);
        at = end + 1;
      }
    }
    return out.Take();
  }

 private:
  static size_t FieldEnd(const std::string& format, size_t begin) {
    int open = 0;
    for (size_t at = begin; at < format.size(); ++at) {
      if (format[at] == '{') ++open;
      if (format[at] == '}' && --open == 0) return at;
    }
    throw Failure("expected '}' before end of string");
  }

  std::string Field(const std::string& field, int level) {
    size_t name_end = 0;
    int brackets = 0;
    while (name_end < field.size()) {
      if (field[name_end] == '[') ++brackets;
      if (field[name_end] == ']') --brackets;
      if (brackets == 0 && (field[name_end] == ':' || field[name_end] == '!')) break;
      ++name_end;
    }
    Value value = Lookup(field.substr(0, name_end));
    size_t at = name_end;
    if (at < field.size() && field[at] == '!') {
      const char conversion = at + 1 < field.size() ? field[at + 1] : '\0';
      if (conversion == 'r' || conversion == 'a') {
        value = Value::Str(Repr(value));
      } else if (conversion == 's') {
        value = Value::Str(ToText(value));
      } else {
        throw Failure("Unknown conversion specifier in a format string");
      }
      at += 2;
    }
    std::string spec;
    if (at < field.size()) {
      if (field[at] != ':') throw Failure("expected ':' after conversion specifier");
      spec = Format(field.substr(at + 1), level - 1);
    }
    return FormatValue(value, spec);
  }

  Value Lookup(const std::string& name) {
    size_t end = std::min(name.find_first_of(".["), name.size());
    const std::string first = name.substr(0, end);
    Value value = First(first);
    while (end < name.size()) {
      if (name[end] == '.') {
        const size_t next = std::min(name.find_first_of(".[", end + 1), name.size());
        value = GetAttribute(value, name.substr(end + 1, next - end - 1));
        end = next;
      } else {
        const size_t close = name.find(']', end);
        if (close == std::string::npos) throw Failure("Missing ']' in format string");
        const std::string key = name.substr(end + 1, close - end - 1);
        size_t digits = 0;
        const int64_t index = ReadNumber(key, digits);
        value = GetItem(value,
                        index >= 0 && digits == key.size() ? Value::Int(index) : Value::Str(key));
        end = close + 1;
      }
    }
    return value;
  }

  const Value& First(const std::string& name) {
    size_t digits = 0;
    int64_t index = name.empty() ? next_++ : ReadNumber(name, digits);
    const bool numbered = name.empty() || (index >= 0 && digits == name.size());
    if (numbered && automatic_.value_or(name.empty()) != name.empty()) {
      throw Failure("cannot mix manual field specification and automatic field numbering");
    }
    if (numbered) automatic_ = name.empty();
    if (numbered) {
      if (index >= static_cast<int64_t>(arguments_.positional.size())) {
        throw Failure("Replacement index " + std::to_string(index) +
                      " out of range for positional args tuple");
      }
      return arguments_.positional[static_cast<size_t>(index)];
    }
    for (const auto& [key, value] : arguments_.named) {
      if (key == name) return value;
    }
    throw Failure("KeyError: " + QuotedText(name));
  }

  const Arguments& arguments_;
  int64_t next_ = 0;
  std::optional<bool> automatic_;
};

}  // namespace

std::string BraceFormat(const std::string& format, const Arguments& arguments) {
  return BraceFormatter(arguments).Format(format, 2);
}

}  // namespace am::text::jinja

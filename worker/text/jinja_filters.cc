// Filters on single values, and the shared helpers of all filters. Those on sequences:
// jinja_sequence_filters.cc.
#include <algorithm>
#include <charconv>
#include <cmath>

#include "worker/text/jinja_format.h"
#include "worker/text/jinja_library.h"
#include "worker/text/jinja_unicode.h"
#include "worker/text/utf8.h"

namespace am::text::jinja {
namespace {

// int(text, base) of Python; nothing where it would raise.
std::optional<int64_t> ParseInteger(const std::string& text, int base) {
  std::string digits(Strip(text, nullptr, true, true));
  bool negative = false;
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) {
    negative = digits[0] == '-';
    digits.erase(0, 1);
  }
  const auto has_prefix = [&](char lower) {
    return digits.size() > 2 && digits[0] == '0' && (digits[1] | 0x20) == lower;
  };
  if ((base == 16 && has_prefix('x')) || (base == 8 && has_prefix('o')) ||
      (base == 2 && has_prefix('b'))) {
    digits.erase(0, 2);
  }
  std::string plain;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (digits[i] != '_') {
      plain += digits[i];
    } else if (i == 0 || i + 1 == digits.size() || digits[i - 1] == '_') {
      return std::nullopt;
    }
  }
  int64_t value = 0;
  if (plain.empty() || plain[0] == '-') return std::nullopt;
  const auto result = std::from_chars(plain.data(), plain.data() + plain.size(), value, base);
  if (result.ptr != plain.data() + plain.size()) return std::nullopt;
  if (result.ec != std::errc()) throw Failure("an integer of the template does not fit 64 bits");
  return negative ? -value : value;
}

// float(text) of Python; nothing where it would raise.
std::optional<double> ParseReal(const std::string& text) {
  std::string digits = Lower(Strip(text, nullptr, true, true));
  std::erase(digits, '_');
  bool negative = false;
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) {
    negative = digits[0] == '-';
    digits.erase(0, 1);
  }
  if (digits.empty() || digits[0] == '-' || digits.find_first_of("xp(") != std::string::npos)
    return std::nullopt;
  double value = 0;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (result.ptr != digits.data() + digits.size()) return std::nullopt;
  if (result.ec != std::errc()) value = digits.find("e-") != std::string::npos ? 0 : HUGE_VAL;
  return negative ? -value : value;
}

Value IntFilter(const Value& value, Arguments& arguments) {
  const Parameters p("int", arguments, {"default", "base"});
  const Value otherwise = p.Get(0) != nullptr ? *p.Get(0) : Value::Int(0);
  if (value.is_undefined()) FailUndefined(value);
  std::optional<double> real;
  if (value.is_string()) {
    const int64_t base = p.Int(1, 10);
    if (base < 2 || base > 36) throw Failure("int() base must be >= 2 and <= 36");
    if (const auto integer = ParseInteger(value.text(), static_cast<int>(base)))
      return Value::Int(*integer);
    real = ParseReal(value.text());
  } else if (value.is_int()) {
    return Value::Int(value.integer());
  } else if (value.kind() == Kind::kFloat) {
    real = value.real();
  }
  if (!real || !std::isfinite(*real)) return otherwise;
  if (std::fabs(*real) > 9.2e18) throw Failure("an integer of the template does not fit 64 bits");
  return Value::Int(static_cast<int64_t>(*real));
}

Value FloatFilter(const Value& value, Arguments& arguments) {
  const Parameters p("float", arguments, {"default"});
  if (value.is_undefined()) FailUndefined(value);
  if (value.is_number()) return Value::Float(value.real());
  if (value.is_string()) {
    if (const auto real = ParseReal(value.text())) return Value::Float(*real);
  }
  return p.Get(0) != nullptr ? *p.Get(0) : Value::Float(0);
}

// Python's round(): half to even, correct in decimal.
double RoundTo(double value, int64_t precision) {
  if (!std::isfinite(value) || precision > 300) return value;
  if (precision < 0) {
    const double scale = std::pow(10.0, static_cast<double>(-precision));
    return std::isfinite(scale) ? std::nearbyint(value / scale) * scale : 0.0;
  }
  char buffer[1024];
  std::snprintf(buffer, sizeof(buffer), "%.*f", static_cast<int>(precision), value);
  return std::strtod(buffer, nullptr);
}

Value RoundFilter(const Value& value, Arguments& arguments) {
  const Parameters p("round", arguments, {"precision", "method"});
  if (value.is_undefined()) FailUndefined(value);
  if (!value.is_number())
    throw Failure("type " + TypeName(value) + " doesn't define __round__ method");
  const std::string method = p.Get(1) != nullptr ? p.Text(1) : "common";
  const int64_t precision = p.Int(0, 0);
  if (method == "common") {
    if (!value.is_int()) return Value::Float(RoundTo(value.real(), precision));
    if (precision >= 0) return Value::Int(value.integer());
    return Value::Int(static_cast<int64_t>(RoundTo(value.real(), precision)));
  }
  if (method != "ceil" && method != "floor") throw Failure("method must be common, ceil or floor");
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = value.real() * scale;
  return Value::Float((method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale);
}

Value AbsFilter(const Value& value, Arguments& arguments) {
  Parameters("abs", arguments, {});
  if (value.is_undefined()) FailUndefined(value);
  if (value.is_int()) return Value::Int(std::abs(value.integer()));
  if (value.is_number()) return Value::Float(std::fabs(value.real()));
  throw Failure("bad operand type for abs(): '" + TypeName(value) + "'");
}

bool StartsWord(char32_t c) {
  return IsSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
}

// jinja2's own title(): a word begins after white space or an opening bracket.
Value TitleFilter(const Value& value, Arguments& arguments) {
  Parameters("title", arguments, {});
  const std::u32string points = Decode(ToText(value));
  std::string out;
  for (size_t at = 0; at < points.size();) {
    size_t end = at;
    const bool delimiter = StartsWord(points[at]);
    while (end < points.size() && StartsWord(points[end]) == delimiter) ++end;
    out += Upper(Encode(points.substr(at, 1))) + Lower(Encode(points.substr(at + 1, end - at - 1)));
    at = end;
  }
  return Value::Str(std::move(out));
}

Value IndentFilter(const Value& value, Arguments& arguments) {
  const Parameters p("indent", arguments, {"width", "first", "blank"});
  if (value.is_undefined()) FailUndefined(value);
  if (!value.is_string())
    throw Failure("unsupported operand type(s) for +=: '" + TypeName(value) + "' and 'str'");
  const bool text_width = p.Get(0) != nullptr && p.Get(0)->is_string();
  const std::string indention =
      text_width ? p.Text(0) : ToText(Binary("*", Value::Str(" "), Value::Int(p.Int(0, 4))));
  const std::vector<std::string> lines = SplitLines(value.text() + "\n");
  TextBuilder out;
  if (p.Bool(1, false)) out += indention;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += '\n';
    if (i > 0 && (p.Bool(2, false) || !lines[i].empty())) out += indention;
    out += lines[i];
  }
  return Value::Str(out.Take(), value.markup());
}

Value TruncateFilter(const Value& value, Arguments& arguments) {
  const Parameters p("truncate", arguments, {"length", "killwords", "end", "leeway"});
  const int64_t length = p.Int(0, 255);
  const std::string end = p.Get(2) != nullptr ? p.Text(2) : "...";
  const int64_t leeway = p.Absent(3) ? 5 : p.Int(3, 5);
  const int64_t keep = length - CountCodePoints(end);
  if (keep < 0) {
    throw Failure("expected length >= " + std::to_string(CountCodePoints(end)) + ", got " +
                  std::to_string(length));
  }
  if (leeway < 0) throw Failure("expected leeway >= 0, got " + std::to_string(leeway));
  if (Length(value) <= length + leeway) return value;
  if (!value.is_string()) throw Failure("truncate needs a string, got " + TypeName(value));
  std::string head = value.text().substr(0, OffsetOf(value.text(), keep));
  if (!p.Bool(1, false)) head = head.substr(0, head.rfind(' '));
  return Value::Str(head + end);
}

Value WordCount(const Value& value, Arguments& arguments) {
  Parameters("wordcount", arguments, {});
  const std::string text = ToText(value);
  int64_t words = 0;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = NextCodePoint(text, at);
    const bool word =
        c == '_' || AllAre(std::string_view(text).substr(begin, at - begin), CharClass::kAlnum);
    words += word && !inside ? 1 : 0;
    inside = word;
  }
  return Value::Int(words);
}

Value FormatFilter(const Value& value, Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    throw Failure("can't handle positional and keyword arguments at the same time");
  }
  if (arguments.named.empty()) {
    return Value::Str(PercentFormat(ToText(value), Value::Tuple(arguments.positional)));
  }
  Dict named;
  for (const auto& [name, argument] : arguments.named) named.Set(Value::Str(name), argument);
  return Value::Str(PercentFormat(ToText(value), Value::FromDict(std::move(named))));
}

Value UrlEncode(const Value& value, Arguments& arguments) {
  Parameters("urlencode", arguments, {});
  const auto quote = [](const Value& part, bool for_query) {
    std::string out;
    for (const unsigned char c : ToText(part)) {
      if (std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-' || c == '~' ||
          (c == '/' && !for_query)) {
        out += static_cast<char>(c);
      } else if (c == ' ' && for_query) {
        out += '+';
      } else {
        constexpr char kHex[] = "0123456789ABCDEF";
        out += {'%', kHex[c >> 4], kHex[c & 15]};
      }
    }
    return out;
  };
  if (value.is_string() || !Iterable(value)) return Value::Str(quote(value, false));
  std::vector<Value> parts;
  Arguments none;
  for (const Value& pair : Iterate(value.is_dict() ? ApplyFilter("items", value, none) : value)) {
    if (pair.kind() != Kind::kTuple || pair.sequence().items.size() != 2)
      throw Failure("urlencode needs pairs");
    parts.push_back(Value::Str(quote(pair.sequence().items[0], true) + "=" +
                               quote(pair.sequence().items[1], true)));
  }
  return JoinTexts("&", parts, true);
}

template <std::string (*kMap)(std::string_view)>
Value MapFilter(const Value& value, Arguments& arguments) {
  Parameters("str filter", arguments, {});
  return Value::Str(kMap(ToText(value)), value.markup());
}

}  // namespace

Parameters::Parameters(const char* function, Arguments& arguments,
                       std::initializer_list<const char*> names, size_t required)
    : function_(function), bound_(names.size()) {
  const std::string who = std::string(function) + "()";
  if (arguments.positional.size() > names.size()) {
    throw Failure(who + " takes at most " + std::to_string(names.size()) + " arguments (" +
                  std::to_string(arguments.positional.size()) + " given)");
  }
  for (size_t i = 0; i < arguments.positional.size(); ++i) bound_[i] = arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end())
      throw Failure(who + " got an unexpected keyword argument '" + name + "'");
    auto& slot = bound_[static_cast<size_t>(found - names.begin())];
    if (slot) throw Failure(who + " got multiple values for argument '" + name + "'");
    slot = value;
  }
  for (size_t i = 0; i < required; ++i) {
    if (!bound_[i]) throw Failure(who + " misses the required argument '" + names.begin()[i] + "'");
  }
}

int64_t Parameters::Int(size_t i, int64_t otherwise) const {
  if (!bound_[i]) return otherwise;
  if (bound_[i]->is_undefined()) FailUndefined(*bound_[i]);
  if (!bound_[i]->is_int())
    throw Failure("'" + TypeName(*bound_[i]) + "' object cannot be interpreted as an integer");
  return bound_[i]->integer();
}

const std::string& Parameters::Text(size_t i) const {
  if (bound_[i]->is_undefined()) FailUndefined(*bound_[i]);
  if (!bound_[i]->is_string())
    throw Failure(std::string(function_) + "() argument must be str, not " + TypeName(*bound_[i]));
  return bound_[i]->text();
}

Value ReplaceText(const std::string& text, const std::string& from, const std::string& to,
                  int64_t count, bool markup) {
  TextBuilder out;
  size_t begin = 0;
  while (count != 0) {
    size_t at = from.empty() ? begin : text.find(from, begin);
    if (at == std::string::npos || at > text.size()) break;
    --count;
    if (!from.empty()) {
      out += std::string_view(text).substr(begin, at - begin);
      out += to;
      begin = at + from.size();
      continue;
    }
    // An empty pattern matches before each code point and at the end.
    out += to;
    if (begin >= text.size()) {
      begin = text.size() + 1;
      break;
    }
    at = begin;
    NextCodePoint(text, at);
    out += std::string_view(text).substr(begin, at - begin);
    begin = at;
  }
  if (begin < text.size()) out += std::string_view(text).substr(begin);
  return Value::Str(out.Take(), markup);
}

Value JoinTexts(const std::string& separator, const std::vector<Value>& items, bool only_strings) {
  TextBuilder out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += separator;
    if (only_strings && !items[i].is_string()) {
      throw Failure("sequence item " + std::to_string(i) + ": expected str instance, " +
                    TypeName(items[i]) + " found");
    }
    out += ToText(items[i]);
  }
  return Value::Str(out.Take());
}

std::string EscapeHtml(const std::string& text) {
  TextBuilder out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out.Take();
}

const FilterTable& TextFilters() {
  static const FilterFunction escape = [](const Value& value, Arguments& arguments) {
    Parameters("escape", arguments, {});
    return value.markup() ? value : Value::Str(EscapeHtml(ToText(value)), true);
  };
  static const FilterFunction otherwise = [](const Value& value, Arguments& arguments) {
    const Parameters p("default", arguments, {"default_value", "boolean"});
    const bool missing = value.is_undefined() || (p.Bool(1, false) && !Truthy(value));
    return !missing ? value : p.Get(0) != nullptr ? *p.Get(0) : Value::Str("");
  };
  static const FilterTable table = {
      {"int", IntFilter},
      {"float", FloatFilter},
      {"round", RoundFilter},
      {"abs", AbsFilter},
      {"upper", MapFilter<Upper>},
      {"lower", MapFilter<Lower>},
      {"capitalize", MapFilter<Capitalize>},
      {"title", TitleFilter},
      {"indent", IndentFilter},
      {"truncate", TruncateFilter},
      {"wordcount", WordCount},
      {"format", FormatFilter},
      {"urlencode", UrlEncode},
      {"tojson", ToJson},
      {"escape", escape},
      {"e", escape},
      {"default", otherwise},
      {"d", otherwise},
      {"forceescape",
       [](const Value& value, Arguments& arguments) {
         Parameters("forceescape", arguments, {});
         return Value::Str(EscapeHtml(ToText(value)), true);
       }},
      {"safe",
       [](const Value& value, Arguments& arguments) {
         Parameters("safe", arguments, {});
         return Value::Str(ToText(value), true);
       }},
      {"string",
       [](const Value& value, Arguments& arguments) {
         Parameters("string", arguments, {});
         return value.is_string() ? value : Value::Str(ToText(value));
       }},
      {"trim",
       [](const Value& value, Arguments& arguments) {
         const Parameters p("trim", arguments, {"chars"});
         const std::string text = ToText(value);
         return Value::Str(std::string(Strip(text, p.Absent(0) ? nullptr : &p.Text(0), true, true)),
                           value.markup());
       }},
      {"replace",
       [](const Value& value, Arguments& arguments) {
         const Parameters p("replace", arguments, {"old", "new", "count"}, 2);
         return ReplaceText(ToText(value), ToText(p.At(0)), ToText(p.At(1)),
                            p.Absent(2) ? -1 : p.Int(2, -1));
       }},
      {"center",
       [](const Value& value, Arguments& arguments) {
         const Parameters p("center", arguments, {"width"});
         Arguments width;
         width.positional.push_back(Value::Int(p.Int(0, 80)));
         return Call(*MethodOf(Value::Str(ToText(value)), "center"), width);
       }},
  };
  return table;
}

bool HasFilter(const std::string& name) {
  return TextFilters().contains(name) || SequenceFilters().contains(name);
}

Value ApplyFilter(const std::string& name, const Value& value, Arguments& arguments) {
  for (const FilterTable* table : {&TextFilters(), &SequenceFilters()}) {
    if (const auto found = table->find(name); found != table->end())
      return found->second(value, arguments);
  }
  throw Failure("No filter named '" + name + "'.");
}

}  // namespace am::text::jinja

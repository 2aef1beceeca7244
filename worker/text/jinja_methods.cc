// Methods of str, list, tuple, dict and numbers. Those that would change a list or a dict do not
// exist: the sandbox of transformers is immutable, and calling them fails there too.
#include <cmath>
#include <set>

#include "worker/text/jinja_format.h"
#include "worker/text/jinja_library.h"
#include "worker/text/jinja_unicode.h"

namespace am::text::jinja {
namespace {

using Method = Value (*)(const Value& self, Arguments& arguments);
using MethodTable = std::unordered_map<std::string, Method>;

Value Texts(std::vector<std::string> parts) {
  std::vector<Value> items;
  items.reserve(parts.size());
  for (std::string& part : parts) items.push_back(Value::Str(std::move(part)));
  return Value::List(std::move(items));
}

const std::string* Chars(const Parameters& p) { return p.Absent(0) ? nullptr : &p.Text(0); }

template <bool kLeft, bool kRight>
Value StripMethod(const Value& self, Arguments& arguments) {
  const Parameters p("strip", arguments, {"chars"});
  return Value::Str(std::string(Strip(self.text(), Chars(p), kLeft, kRight)));
}

template <bool kRight>
Value SplitMethod(const Value& self, Arguments& arguments) {
  const Parameters p("split", arguments, {"sep", "maxsplit"});
  const int64_t max_splits = p.Int(1, -1);
  const std::string& text = self.text();
  if (p.Absent(0))
    return Texts(kRight ? SplitWordsRight(text, max_splits) : SplitWords(text, max_splits));
  const std::string& separator = p.Text(0);
  if (separator.empty()) throw Failure("empty separator");
  std::vector<std::string> parts;
  if (kRight) {
    size_t end = text.size();
    while (max_splits < 0 || static_cast<int64_t>(parts.size()) < max_splits) {
      if (end < separator.size()) break;
      const size_t at = text.rfind(separator, end - separator.size());
      if (at == std::string::npos) break;
      parts.push_back(text.substr(at + separator.size(), end - at - separator.size()));
      end = at;
    }
    parts.push_back(text.substr(0, end));
    return Texts({parts.rbegin(), parts.rend()});
  }
  size_t begin = 0;
  while (max_splits < 0 || static_cast<int64_t>(parts.size()) < max_splits) {
    const size_t at = text.find(separator, begin);
    if (at == std::string::npos) break;
    parts.push_back(text.substr(begin, at - begin));
    begin = at + separator.size();
  }
  parts.push_back(text.substr(begin));
  return Texts(std::move(parts));
}

template <bool kRight>
Value PartitionMethod(const Value& self, Arguments& arguments) {
  const Parameters p("partition", arguments, {"sep"}, 1);
  const std::string& separator = p.Text(0);
  if (separator.empty()) throw Failure("empty separator");
  const std::string& text = self.text();
  const size_t at = kRight ? text.rfind(separator) : text.find(separator);
  const Value empty = Value::Str("");
  if (at == std::string::npos)
    return Value::Tuple(kRight ? std::vector{empty, empty, self} : std::vector{self, empty, empty});
  return Value::Tuple(
      {Value::Str(text.substr(0, at)), p.At(0), Value::Str(text.substr(at + separator.size()))});
}

// The part of the text between the optional bounds at parameters 1 and 2, and where it begins in
// code points.
std::string_view Window(const std::string& text, const Parameters& p, int64_t& first) {
  const int64_t length = CountCodePoints(text);
  const auto clamp = [&](int64_t index) {
    return std::min(index < 0 ? std::max<int64_t>(index + length, 0) : index, length);
  };
  const int64_t raw_first = p.Absent(1) ? 0 : p.Int(1, 0);
  first = clamp(raw_first);
  const int64_t last = p.Absent(2) ? length : clamp(p.Int(2, 0));
  if (raw_first > length) first = length + 1;
  if (last < first) return {};
  const size_t begin = OffsetOf(text, first);
  const std::string_view rest = std::string_view(text).substr(begin);
  return rest.substr(0, OffsetOf(rest, last - first));
}

template <bool kEnd>
Value AffixMethod(const Value& self, Arguments& arguments) {
  const Parameters p("startswith", arguments, {"prefix", "start", "end"}, 1);
  int64_t first = 0;
  const std::string_view window = Window(self.text(), p, first);
  const auto matches = [&](const Value& affix) {
    if (!affix.is_string()) {
      throw Failure(std::string(kEnd ? "endswith" : "startswith") +
                    " first arg must be str or a tuple of str, not " + TypeName(affix));
    }
    return kEnd ? window.ends_with(affix.text()) : window.starts_with(affix.text());
  };
  if (p.At(0).is_undefined()) FailUndefined(p.At(0));
  if (p.At(0).kind() != Kind::kTuple) return Value::Bool(matches(p.At(0)));
  for (const Value& affix : p.At(0).sequence().items) {
    if (matches(affix)) return Value::Bool(true);
  }
  return Value::Bool(false);
}

template <bool kRight, bool kThrows>
Value FindMethod(const Value& self, Arguments& arguments) {
  const Parameters p("find", arguments, {"sub", "start", "end"}, 1);
  int64_t first = 0;
  const std::string_view window = Window(self.text(), p, first);
  const size_t at = window.data() == nullptr ? std::string_view::npos
                    : kRight                 ? window.rfind(p.Text(0))
                                             : window.find(p.Text(0));
  if (at != std::string_view::npos)
    return Value::Int(first + CountCodePoints(window.substr(0, at)));
  if (kThrows) throw Failure("substring not found");
  return Value::Int(-1);
}

Value CountMethod(const Value& self, Arguments& arguments) {
  const Parameters p("count", arguments, {"sub", "start", "end"}, 1);
  int64_t first = 0;
  const std::string_view window = Window(self.text(), p, first);
  const std::string& wanted = p.Text(0);
  if (wanted.empty()) return Value::Int(window.data() == nullptr ? 0 : CountCodePoints(window) + 1);
  int64_t count = 0;
  for (size_t at = window.find(wanted); at != std::string_view::npos;
       at = window.find(wanted, at + wanted.size()))
    ++count;
  return Value::Int(count);
}

template <bool kLeft, bool kRight>
Value JustifyMethod(const Value& self, Arguments& arguments) {
  const Parameters p("ljust", arguments, {"width", "fillchar"}, 1);
  const std::string fill = p.Get(1) != nullptr ? p.Text(1) : " ";
  if (CountCodePoints(fill) != 1)
    throw Failure("The fill character must be exactly one character long");
  const int64_t missing = std::max<int64_t>(p.Int(0, 0) - CountCodePoints(self.text()), 0);
  // str.center puts the odd space on the right, or on the left when both numbers are odd.
  const int64_t width = p.Int(0, 0);
  const int64_t left = !kLeft ? 0 : !kRight ? missing : missing / 2 + (missing & width & 1);
  TextBuilder out;
  for (int64_t i = 0; i < left; ++i) out += fill;
  out += self.text();
  for (int64_t i = left; i < missing; ++i) out += fill;
  return Value::Str(out.Take());
}

Value ZeroFill(const Value& self, Arguments& arguments) {
  const Parameters p("zfill", arguments, {"width"}, 1);
  const std::string& text = self.text();
  const size_t sign = !text.empty() && (text[0] == '-' || text[0] == '+') ? 1 : 0;
  TextBuilder out;
  out += text.substr(0, sign);
  for (int64_t missing = p.Int(0, 0) - CountCodePoints(text); missing > 0; --missing) out += '0';
  out += text.substr(sign);
  return Value::Str(out.Take());
}

template <std::string (*kMap)(std::string_view)>
Value MapMethod(const Value& self, Arguments& arguments) {
  Parameters("str method", arguments, {});
  return Value::Str(kMap(self.text()));
}

template <CharClass kClass>
Value ClassMethod(const Value& self, Arguments& arguments) {
  Parameters("str method", arguments, {});
  return Value::Bool(AllAre(self.text(), kClass));
}

template <bool (*kPredicate)(std::string_view)>
Value PredicateMethod(const Value& self, Arguments& arguments) {
  Parameters("str method", arguments, {});
  return Value::Bool(kPredicate(self.text()));
}

bool IsIdentifier(std::string_view text) {
  const std::u32string points = Decode(text);
  for (size_t i = 0; i < points.size(); ++i) {
    if (!IsIdentifierPart(points[i], i == 0)) return false;
  }
  return !points.empty();
}

Value ExpandTabs(const Value& self, Arguments& arguments) {
  const Parameters p("expandtabs", arguments, {"tabsize"});
  const int64_t size = p.Int(0, 8);
  TextBuilder out;
  int64_t column = 0;
  for (const char c : self.text()) {
    if (c == '\t') {
      for (int64_t i = size > 0 ? size - column % size : 0; i > 0; --i, ++column) out += ' ';
      continue;
    }
    column = c == '\n' || c == '\r' ? 0 : column + ((c & 0xC0) != 0x80 ? 1 : 0);
    out += c;
  }
  return Value::Str(out.Take());
}

const MethodTable& StringMethods() {
  static const MethodTable table = {
      {"strip", StripMethod<true, true>},
      {"lstrip", StripMethod<true, false>},
      {"rstrip", StripMethod<false, true>},
      {"split", SplitMethod<false>},
      {"rsplit", SplitMethod<true>},
      {"partition", PartitionMethod<false>},
      {"rpartition", PartitionMethod<true>},
      {"startswith", AffixMethod<false>},
      {"endswith", AffixMethod<true>},
      {"find", FindMethod<false, false>},
      {"rfind", FindMethod<true, false>},
      {"index", FindMethod<false, true>},
      {"rindex", FindMethod<true, true>},
      {"count", CountMethod},
      {"ljust", JustifyMethod<false, true>},
      {"rjust", JustifyMethod<true, false>},
      {"center", JustifyMethod<true, true>},
      {"zfill", ZeroFill},
      {"expandtabs", ExpandTabs},
      {"upper", MapMethod<Upper>},
      {"lower", MapMethod<Lower>},
      {"casefold", MapMethod<Lower>},
      {"title", MapMethod<TitleWords>},
      {"capitalize", MapMethod<Capitalize>},
      {"swapcase", MapMethod<SwapCase>},
      {"isspace", ClassMethod<CharClass::kSpace>},
      {"isdigit", ClassMethod<CharClass::kDigit>},
      {"isdecimal", ClassMethod<CharClass::kDecimal>},
      {"isnumeric", ClassMethod<CharClass::kNumeric>},
      {"isalpha", ClassMethod<CharClass::kAlpha>},
      {"isalnum", ClassMethod<CharClass::kAlnum>},
      {"isascii", ClassMethod<CharClass::kAscii>},
      {"isprintable", ClassMethod<CharClass::kPrintable>},
      {"isupper", PredicateMethod<IsUpper>},
      {"islower", PredicateMethod<IsLower>},
      {"istitle", PredicateMethod<IsTitle>},
      {"isidentifier", PredicateMethod<IsIdentifier>},
      {"replace",
       [](const Value& self, Arguments& arguments) {
         const Parameters p("replace", arguments, {"old", "new", "count"}, 2);
         return ReplaceText(self.text(), p.Text(0), p.Text(1), p.Int(2, -1));
       }},
      {"join",
       [](const Value& self, Arguments& arguments) {
         const Parameters p("join", arguments, {"iterable"}, 1);
         return JoinTexts(self.text(), Iterate(p.At(0)), true);
       }},
      {"format",
       [](const Value& self, Arguments& arguments) {
         return Value::Str(BraceFormat(self.text(), arguments));
       }},
      {"splitlines",
       [](const Value& self, Arguments& arguments) {
         const Parameters p("splitlines", arguments, {"keepends"});
         return Texts(SplitLines(self.text(), p.Bool(0, false)));
       }},
      {"removeprefix",
       [](const Value& self, Arguments& arguments) {
         const Parameters p("removeprefix", arguments, {"prefix"}, 1);
         const std::string& prefix = p.Text(0);
         return self.text().starts_with(prefix) ? Value::Str(self.text().substr(prefix.size()))
                                                : self;
       }},
      {"removesuffix",
       [](const Value& self, Arguments& arguments) {
         const Parameters p("removesuffix", arguments, {"suffix"}, 1);
         const std::string& suffix = p.Text(0);
         const std::string& text = self.text();
         return text.ends_with(suffix) ? Value::Str(text.substr(0, text.size() - suffix.size()))
                                       : self;
       }},
      {"encode",
       [](const Value&, Arguments&) -> Value {
         throw Failure("str.encode() is not supported in a chat template");
       }},
  };
  return table;
}

Value SequenceIndex(const Value& self, Arguments& arguments) {
  const Parameters p("index", arguments, {"value", "start", "stop"}, 1);
  const auto& items = self.sequence().items;
  const auto length = static_cast<int64_t>(items.size());
  const auto clamp = [&](int64_t i) {
    return std::min(i < 0 ? std::max<int64_t>(i + length, 0) : i, length);
  };
  for (int64_t i = clamp(p.Int(1, 0)); i < clamp(p.Int(2, length)); ++i) {
    if (Equal(items[static_cast<size_t>(i)], p.At(0))) return Value::Int(i);
  }
  throw Failure(Repr(p.At(0)) + " is not in " + TypeName(self));
}

Value SequenceCount(const Value& self, Arguments& arguments) {
  const Parameters p("count", arguments, {"value"}, 1);
  int64_t count = 0;
  for (const Value& item : self.sequence().items) count += Equal(item, p.At(0)) ? 1 : 0;
  return Value::Int(count);
}

Value ListCopy(const Value& self, Arguments& arguments) {
  Parameters("copy", arguments, {});
  return Value::List(self.sequence().items);
}

enum class Part { kKeys, kValues, kItems };

template <Part kPart>
Value DictView(const Value& self, Arguments& arguments) {
  Parameters("dict method", arguments, {});
  std::vector<Value> items;
  for (const auto& [key, value] : self.dict().items()) {
    items.push_back(kPart == Part::kKeys     ? key
                    : kPart == Part::kValues ? value
                                             : Value::Tuple({key, value}));
  }
  const char* label = kPart == Part::kKeys     ? "dict_keys"
                      : kPart == Part::kValues ? "dict_values"
                                               : "dict_items";
  return Value::Make(Kind::kView, std::move(items), label);
}

const MethodTable& DictMethods() {
  static const MethodTable table = {
      {"keys", DictView<Part::kKeys>},
      {"values", DictView<Part::kValues>},
      {"items", DictView<Part::kItems>},
      {"get",
       [](const Value& self, Arguments& arguments) {
         const Parameters p("get", arguments, {"key", "default"}, 1);
         const Value* found = self.dict().Find(p.At(0));
         return found != nullptr ? *found : p.Get(1) != nullptr ? *p.Get(1) : Value::None();
       }},
      {"copy",
       [](const Value& self, Arguments& arguments) {
         Parameters("copy", arguments, {});
         return self;
       }},
  };
  return table;
}

const MethodTable& NumberMethods() {
  static const MethodTable table = {
      {"is_integer",
       [](const Value& self, Arguments&) {
         return Value::Bool(self.is_int() || self.real() == std::floor(self.real()));
       }},
      {"bit_length",
       [](const Value& self, Arguments&) {
         const int64_t magnitude = self.is_int() ? std::abs(self.integer()) : 0;
         return Value::Int(magnitude == 0 ? 0
                                          : 64 - __builtin_clzll(static_cast<uint64_t>(magnitude)));
       }},
  };
  return table;
}

const std::set<std::string>& Mutators(Kind kind) {
  static const std::set<std::string> list = {"append", "clear", "pop",    "reverse",
                                             "insert", "sort",  "extend", "remove"};
  static const std::set<std::string> dict = {"clear", "pop", "popitem", "setdefault", "update"};
  static const std::set<std::string> none;
  return kind == Kind::kList ? list : kind == Kind::kDict ? dict : none;
}

}  // namespace

std::optional<Value> MethodOf(const Value& self, const std::string& name) {
  static const MethodTable empty;
  static const MethodTable tuple_methods = {{"index", SequenceIndex}, {"count", SequenceCount}};
  static const MethodTable list_methods = {
      {"index", SequenceIndex}, {"count", SequenceCount}, {"copy", ListCopy}};
  const MethodTable* table = &empty;
  if (self.is_string()) {
    table = &StringMethods();
  } else if (self.is_dict()) {
    table = &DictMethods();
  } else if (self.kind() == Kind::kList) {
    table = &list_methods;
  } else if (self.kind() == Kind::kTuple || self.kind() == Kind::kRange) {
    table = &tuple_methods;
  } else if (self.is_number()) {
    if (name == "real" || name == "numerator") return self;
    if (name == "imag") return Value::Int(0);
    table = &NumberMethods();
  }
  if (const auto found = table->find(name); found != table->end()) {
    const Method method = found->second;
    return Value::FromObject(std::make_shared<Function>(
        name, [self, method](Arguments& arguments) { return method(self, arguments); }, self));
  }
  if (Mutators(self.kind()).contains(name)) {
    return Value::Undefined("access to attribute '" + name + "' of '" + TypeName(self) +
                            "' object is unsafe.");
  }
  return std::nullopt;
}

}  // namespace am::text::jinja

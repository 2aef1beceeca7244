// `tojson`: Python's json.dumps with the options that transformers passes on.
#include <algorithm>

#include "worker/text/jinja_library.h"
#include "worker/text/jinja_unicode.h"
#include "worker/text/utf8.h"

namespace am::text::jinja {
namespace {

struct JsonStyle {
  bool ascii = false;
  bool sort_keys = false;
  std::optional<std::string> indent;
  std::string item_separator = ", ";
  std::string key_separator = ": ";
};

class JsonWriter {
 public:
  explicit JsonWriter(JsonStyle style) : style_(std::move(style)) {}

  std::string Run(const Value& value) {
    Write(value, 0);
    return out_.Take();
  }

 private:
  void Write(const Value& value, int level) {
    switch (value.kind()) {
      case Kind::kNone:
        out_ += "null";
        break;
      case Kind::kBool:
        out_ += value.boolean() ? "true" : "false";
        break;
      case Kind::kInt:
        out_ += std::to_string(value.integer());
        break;
      case Kind::kFloat:
        out_ += Real(value.real());
        break;
      case Kind::kString:
        WriteText(value.text());
        break;
      case Kind::kList:
      case Kind::kTuple:
        WriteList(value.sequence().items, level);
        break;
      case Kind::kDict:
        WriteDict(value.dict(), level);
        break;
      default:
        throw Failure("Object of type " + TypeName(value) + " is not JSON serializable");
    }
  }

  static std::string Real(double value) {
    const std::string text = FloatText(value);
    return text == "nan" ? "NaN" : text == "inf" ? "Infinity" : text == "-inf" ? "-Infinity" : text;
  }

  void Unicode(char32_t unit) {
    constexpr char kHex[] = "0123456789abcdef";
    const char escape[] = {'\\',
                           'u',
                           kHex[(unit >> 12) & 15],
                           kHex[(unit >> 8) & 15],
                           kHex[(unit >> 4) & 15],
                           kHex[unit & 15]};
    out_ += std::string_view(escape, sizeof(escape));
  }

  void WriteText(const std::string& text) {
    out_ += '"';
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      const char32_t c = NextCodePoint(text, at);
      switch (c) {
        case '"':
          out_ += "\\\"";
          break;
        case '\\':
          out_ += "\\\\";
          break;
        case '\n':
          out_ += "\\n";
          break;
        case '\r':
          out_ += "\\r";
          break;
        case '\t':
          out_ += "\\t";
          break;
        case '\f':
          out_ += "\\f";
          break;
        case '\b':
          out_ += "\\b";
          break;
        default:
          if (c < 0x20 || (style_.ascii && c > 0x7E && c < 0x10000)) {
            Unicode(c);
          } else if (style_.ascii && c >= 0x10000) {
            Unicode(0xD7C0 + (c >> 10));
            Unicode(0xDC00 + (c & 0x3FF));
          } else {
            out_ += std::string_view(text).substr(begin, at - begin);
          }
      }
    }
    out_ += '"';
  }

  void NewLine(int level) {
    if (!style_.indent) return;
    out_ += '\n';
    for (int i = 0; i < level; ++i) out_ += *style_.indent;
  }

  void WriteList(const std::vector<Value>& items, int level) {
    if (items.empty()) {
      out_ += "[]";
      return;
    }
    out_ += '[';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i > 0) out_ += style_.item_separator;
      NewLine(level + 1);
      Write(items[i], level + 1);
    }
    NewLine(level);
    out_ += ']';
  }

  static std::string KeyText(const Value& key) {
    switch (key.kind()) {
      case Kind::kString:
        return key.text();
      case Kind::kNone:
        return "null";
      case Kind::kBool:
        return key.boolean() ? "true" : "false";
      case Kind::kInt:
        return std::to_string(key.integer());
      case Kind::kFloat:
        return Real(key.real());
      default:
        throw Failure("keys must be str, int, float, bool or None, not " + TypeName(key));
    }
  }

  void WriteDict(const Dict& dict, int level) {
    if (dict.size() == 0) {
      out_ += "{}";
      return;
    }
    std::vector<std::pair<Value, Value>> items = dict.items();
    if (style_.sort_keys) {
      std::stable_sort(items.begin(), items.end(),
                       [](const auto& a, const auto& b) { return Less(a.first, b.first); });
    }
    out_ += '{';
    bool first = true;
    for (const auto& [key, value] : items) {
      if (!first) out_ += style_.item_separator;
      first = false;
      NewLine(level + 1);
      WriteText(KeyText(key));
      out_ += style_.key_separator;
      Write(value, level + 1);
    }
    NewLine(level);
    out_ += '}';
  }

  JsonStyle style_;
  TextBuilder out_;
};

}  // namespace

Value ToJson(const Value& value, Arguments& arguments) {
  const Parameters p("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ascii = p.Bool(0, false);
  style.sort_keys = p.Bool(3, false);
  if (!p.Absent(1)) {
    style.indent = p.Get(1)->is_string()
                       ? p.Text(1)
                       : ToText(Binary("*", Value::Str(" "),
                                       Value::Int(std::min<int64_t>(p.Int(1, 0), 1000))));
    style.item_separator = ",";
  }
  if (!p.Absent(2)) {
    const std::vector<Value> separators = Iterate(*p.Get(2));
    if (separators.size() != 2 || !separators[0].is_string() || !separators[1].is_string()) {
      throw Failure("tojson: separators must be two strings");
    }
    style.item_separator = separators[0].text();
    style.key_separator = separators[1].text();
  }
  return Value::Str(JsonWriter(std::move(style)).Run(value));
}

}  // namespace am::text::jinja

#include "worker/text/jinja_unicode.h"

#include <unicode/uchar.h>
#include <unicode/ustring.h>

#include <algorithm>

#include "worker/text/utf8.h"

namespace am::text::jinja {
namespace {

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return c < 0x80; });
}

enum class CaseMap { kUpper, kLower, kTitle };

// Full case mapping of a piece of text without a language, as Python does it.
std::string MapCase(std::string_view text, CaseMap map) {
  if (IsAscii(text) && map != CaseMap::kTitle) {
    std::string out(text);
    for (char& c : out) {
      if (map == CaseMap::kUpper && c >= 'a' && c <= 'z') c = static_cast<char>(c - 32);
      if (map == CaseMap::kLower && c >= 'A' && c <= 'Z') c = static_cast<char>(c + 32);
    }
    return out;
  }
  std::u16string source;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = NextCodePoint(text, at);
    if (c >= 0x10000) {
      source += static_cast<char16_t>(0xD7C0 + (c >> 10));
      source += static_cast<char16_t>(0xDC00 + (c & 0x3FF));
    } else {
      source += static_cast<char16_t>(c);
    }
  }
  std::u16string mapped(source.size() * 3 + 4, u'\0');
  UErrorCode status = U_ZERO_ERROR;
  const auto capacity = static_cast<int32_t>(mapped.size());
  const auto length = static_cast<int32_t>(source.size());
  int32_t written = 0;
  switch (map) {
    case CaseMap::kUpper:
      written = u_strToUpper(mapped.data(), capacity, source.data(), length, "", &status);
      break;
    case CaseMap::kLower:
      written = u_strToLower(mapped.data(), capacity, source.data(), length, "", &status);
      break;
    case CaseMap::kTitle:
      written = u_strToTitle(mapped.data(), capacity, source.data(), length, nullptr, "", &status);
      break;
  }
  mapped.resize(U_SUCCESS(status) ? static_cast<size_t>(written) : 0);
  std::string out;
  for (size_t i = 0; i < mapped.size(); ++i) {
    char32_t c = mapped[i];
    if (c >= 0xD800 && c < 0xDC00 && i + 1 < mapped.size()) {
      c = 0x10000 + ((c - 0xD800) << 10) + (mapped[++i] - 0xDC00);
    }
    AppendUtf8(out, c);
  }
  return out;
}

bool IsCased(char32_t c) {
  const auto code = static_cast<UChar32>(c);
  return u_isupper(code) || u_islower(code) || u_istitle(code) ||
         u_hasBinaryProperty(code, UCHAR_LOWERCASE) || u_hasBinaryProperty(code, UCHAR_UPPERCASE);
}

bool HasUpper(char32_t c) { return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_UPPERCASE); }
bool HasLower(char32_t c) { return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_LOWERCASE); }

std::string One(char32_t c) {
  std::string out;
  AppendUtf8(out, c);
  return out;
}

bool Is(char32_t c, CharClass char_class) {
  const auto code = static_cast<UChar32>(c);
  switch (char_class) {
    case CharClass::kSpace:
      return IsSpace(c);
    case CharClass::kDecimal:
      return u_charType(code) == U_DECIMAL_DIGIT_NUMBER;
    case CharClass::kDigit: {
      const auto type = u_getIntPropertyValue(code, UCHAR_NUMERIC_TYPE);
      return type == U_NT_DECIMAL || type == U_NT_DIGIT;
    }
    case CharClass::kNumeric:
      return u_getIntPropertyValue(code, UCHAR_NUMERIC_TYPE) != U_NT_NONE;
    case CharClass::kAlpha:
      return u_isalpha(code);
    case CharClass::kAlnum:
      return u_isalpha(code) || Is(c, CharClass::kNumeric);
    case CharClass::kAscii:
      return c < 0x80;
    case CharClass::kPrintable: {
      if (c == ' ') return true;
      switch (u_charType(code)) {
        case U_UNASSIGNED:
        case U_CONTROL_CHAR:
        case U_FORMAT_CHAR:
        case U_SURROGATE:
        case U_PRIVATE_USE_CHAR:
        case U_SPACE_SEPARATOR:
        case U_LINE_SEPARATOR:
        case U_PARAGRAPH_SEPARATOR:
          return false;
        default:
          return true;
      }
    }
  }
  return false;
}

bool IsLineEnd(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
         c == 0x2029;
}

}  // namespace

int64_t CountCodePoints(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; });
}

size_t OffsetOf(std::string_view text, int64_t index) {
  size_t at = 0;
  while (at < text.size()) {
    if (index-- <= 0) return at;
    do ++at;
    while (at < text.size() && (text[at] & 0xC0) == 0x80);
  }
  return text.size();
}

std::u32string Decode(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) out += NextCodePoint(text, at);
  return out;
}

std::string Encode(std::u32string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char32_t c : text) AppendUtf8(out, c);
  return out;
}

bool IsSpace(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F);
  return u_isUWhiteSpace(static_cast<UChar32>(c));
}

std::string Upper(std::string_view text) { return MapCase(text, CaseMap::kUpper); }
std::string Lower(std::string_view text) { return MapCase(text, CaseMap::kLower); }

std::string TitleWords(std::string_view text) {
  std::string out;
  bool inside = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = NextCodePoint(text, at);
    out += inside ? Lower(One(c)) : MapCase(One(c), CaseMap::kTitle);
    inside = IsCased(c);
  }
  return out;
}

std::string Capitalize(std::string_view text) {
  if (text.empty()) return "";
  size_t at = 0;
  NextCodePoint(text, at);
  return MapCase(text.substr(0, at), CaseMap::kTitle) + Lower(text.substr(at));
}

std::string SwapCase(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = NextCodePoint(text, at);
    out += HasUpper(c) ? Lower(One(c)) : HasLower(c) ? Upper(One(c)) : One(c);
  }
  return out;
}

bool AllAre(std::string_view text, CharClass char_class) {
  for (size_t at = 0; at < text.size();) {
    if (!Is(NextCodePoint(text, at), char_class)) return false;
  }
  return !text.empty() || char_class == CharClass::kAscii || char_class == CharClass::kPrintable;
}

bool IsUpper(std::string_view text) {
  bool cased = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = NextCodePoint(text, at);
    if (HasLower(c) || u_istitle(static_cast<UChar32>(c))) return false;
    cased = cased || HasUpper(c);
  }
  return cased;
}

bool IsLower(std::string_view text) {
  bool cased = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = NextCodePoint(text, at);
    if (HasUpper(c) || u_istitle(static_cast<UChar32>(c))) return false;
    cased = cased || HasLower(c);
  }
  return cased;
}

bool IsTitle(std::string_view text) {
  bool inside = false;
  bool cased = false;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = NextCodePoint(text, at);
    const bool upper = HasUpper(c) || u_istitle(static_cast<UChar32>(c));
    if (upper && inside) return false;
    if (HasLower(c) && !inside) return false;
    inside = IsCased(c);
    cased = cased || inside;
  }
  return cased;
}

bool IsIdentifierPart(char32_t c, bool first) {
  if (c < 0x80) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           (!first && c >= '0' && c <= '9');
  }
  return u_hasBinaryProperty(static_cast<UChar32>(c), first ? UCHAR_XID_START : UCHAR_XID_CONTINUE);
}

std::string_view Strip(std::string_view text, const std::string* chars, bool left, bool right) {
  const std::u32string set = chars != nullptr ? Decode(*chars) : std::u32string();
  const auto strips = [&](char32_t c) {
    return chars != nullptr ? set.find(c) != std::u32string::npos : IsSpace(c);
  };
  size_t begin = 0;
  size_t end = text.size();
  while (left && begin < end) {
    size_t next = begin;
    if (!strips(NextCodePoint(text, next))) break;
    begin = next;
  }
  while (right && end > begin) {
    size_t last = end - 1;
    while (last > begin && (text[last] & 0xC0) == 0x80) --last;
    size_t next = last;
    if (!strips(NextCodePoint(text, next))) break;
    end = last;
  }
  return text.substr(begin, end - begin);
}

std::vector<std::string> SplitWords(std::string_view text, int64_t max_splits) {
  std::vector<std::string> words;
  text = Strip(text, nullptr, true, false);
  while (!text.empty()) {
    if (max_splits >= 0 && static_cast<int64_t>(words.size()) == max_splits) {
      words.emplace_back(text);
      break;
    }
    size_t end = 0;
    while (end < text.size()) {
      size_t next = end;
      if (IsSpace(NextCodePoint(text, next))) break;
      end = next;
    }
    words.emplace_back(text.substr(0, end));
    text = Strip(text.substr(end), nullptr, true, false);
  }
  return words;
}

std::vector<std::string> SplitWordsRight(std::string_view text, int64_t max_splits) {
  std::vector<std::string> words;
  text = Strip(text, nullptr, false, true);
  while (!text.empty()) {
    if (max_splits >= 0 && static_cast<int64_t>(words.size()) == max_splits) {
      words.emplace_back(text);
      break;
    }
    size_t begin = text.size();
    while (begin > 0) {
      size_t last = begin - 1;
      while (last > 0 && (text[last] & 0xC0) == 0x80) --last;
      size_t next = last;
      if (IsSpace(NextCodePoint(text, next))) break;
      begin = last;
    }
    words.emplace_back(text.substr(begin));
    text = Strip(text.substr(0, begin), nullptr, false, true);
  }
  std::reverse(words.begin(), words.end());
  return words;
}

std::vector<std::string> SplitLines(std::string_view text, bool keep_ends) {
  std::vector<std::string> lines;
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t end = at;
    const char32_t c = NextCodePoint(text, at);
    if (!IsLineEnd(c)) continue;
    if (c == '\r' && at < text.size() && text[at] == '\n') ++at;
    lines.emplace_back(text.substr(begin, (keep_ends ? at : end) - begin));
    begin = at;
  }
  if (begin < text.size()) lines.emplace_back(text.substr(begin));
  return lines;
}

std::string QuotedText(std::string_view text) {
  const char quote =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"'
                                                                                            : '\'';
  std::string out(1, quote);
  constexpr char kHex[] = "0123456789abcdef";
  const auto hex = [&](char32_t c, int digits) {
    while (digits-- > 0) out += kHex[(c >> (4 * digits)) & 15];
  };
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = NextCodePoint(text, at);
    if (c == static_cast<char32_t>(quote) || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (Is(c, CharClass::kPrintable)) {
      out += text.substr(begin, at - begin);
    } else if (c < 0x100) {
      out += "\\x";
      hex(c, 2);
    } else if (c < 0x10000) {
      out += "\\u";
      hex(c, 4);
    } else {
      out += "\\U";
      hex(c, 8);
    }
  }
  return out + quote;
}

}  // namespace am::text::jinja

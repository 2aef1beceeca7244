#include "worker/text/jinja_lexer.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>

#include "worker/text/jinja_unicode.h"
#include "worker/text/utf8.h"

namespace am::text::jinja {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Every line end becomes "\n"; a single one at the very end goes away.
std::string NormalizeNewlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] != '\r') {
      out += source[i];
      continue;
    }
    out += '\n';
    if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
  }
  if (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

class Lexer {
 public:
  explicit Lexer(const std::string& source) : text_(NormalizeNewlines(source)) {}

  std::vector<Token> Run() {
    while (at_ < text_.size()) LexData();
    Emit(TokenType::kEnd, "");
    return std::move(tokens_);
  }

 private:
  // What follows a piece of data: which construct, how its white space sign reads, where it goes
  // on.
  struct Opening {
    enum { kVariable, kBlock, kComment, kRaw } what;
    size_t begin;
    size_t end;
    char sign;
  };

  bool At(std::string_view word, size_t at) const {
    return text_.compare(at, word.size(), word) == 0;
  }
  bool At(std::string_view word) const { return At(word, at_); }

  size_t SkipSpace(size_t at) const {
    while (at < text_.size()) {
      size_t next = at;
      if (!IsSpace(NextCodePoint(text_, next))) break;
      at = next;
    }
    return at;
  }

  size_t ReadSign(size_t at, char& sign) const {
    sign = at < text_.size() && (text_[at] == '-' || text_[at] == '+') ? text_[at] : '\0';
    return sign != '\0' ? at + 1 : at;
  }

  // `{% raw %}` at `at`: the offset after it.
  std::optional<size_t> MatchRawBegin(size_t at, char& sign) const {
    size_t p = SkipSpace(ReadSign(at + 2, sign));
    if (!At("raw", p)) return std::nullopt;
    p = SkipSpace(p + 3);
    if (At("-%}", p)) return SkipSpace(p + 3);
    if (At("%}", p)) return p + 2;
    return std::nullopt;
  }

  std::optional<Opening> FindOpening(size_t from) const {
    for (size_t at = text_.find('{', from); at != std::string::npos; at = text_.find('{', at + 1)) {
      char sign = '\0';
      if (At("{%", at)) {
        if (const auto end = MatchRawBegin(at, sign)) return Opening{Opening::kRaw, at, *end, sign};
        const size_t end = ReadSign(at + 2, sign);
        return Opening{Opening::kBlock, at, end, sign};
      }
      if (At("{#", at) || At("{{", at)) {
        const size_t end = ReadSign(at + 2, sign);
        return Opening{text_[at + 1] == '#' ? Opening::kComment : Opening::kVariable, at, end,
                       sign};
      }
    }
    return std::nullopt;
  }

  // Drops the white space that the tag after `data` eats.
  std::string_view TrimBefore(std::string_view data, char sign, bool is_variable) const {
    if (sign == '-') return Strip(data, nullptr, false, true);
    if (sign == '+' || is_variable) return data;
    const size_t newline = data.rfind('\n');
    if (newline == std::string_view::npos && !line_starting_) return data;
    const size_t line = newline == std::string_view::npos ? 0 : newline + 1;
    return Strip(data.substr(line), nullptr, true, false).empty() ? data.substr(0, line) : data;
  }

  void LexData() {
    const auto opening = FindOpening(at_);
    const size_t end = opening ? opening->begin : text_.size();
    const std::string_view data(text_.data() + at_, end - at_);
    const std::string_view kept =
        opening ? TrimBefore(data, opening->sign, opening->what == Opening::kVariable) : data;
    if (!kept.empty()) Emit(TokenType::kData, std::string(kept));
    CountLines(at_, end);
    at_ = end;
    if (!opening) return;
    Advance(opening->end);
    switch (opening->what) {
      case Opening::kComment:
        LexComment();
        break;
      case Opening::kRaw:
        LexRaw();
        break;
      case Opening::kVariable:
        LexCode(TokenType::kVariableBegin);
        break;
      case Opening::kBlock:
        LexCode(TokenType::kBlockBegin);
        break;
    }
  }

  void CountLines(size_t begin, size_t end) {
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(begin),
                                         text_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
  }

  void Advance(size_t to) {
    CountLines(at_, to);
    if (to > at_) line_starting_ = text_[to - 1] == '\n';
    at_ = to;
  }

  // Behind the closing `%}` or `#}` at `close`: the newline, or all white space after a `-`, goes
  // too.
  size_t AfterClosing(size_t close, char sign) const {
    if (sign == '-') return SkipSpace(close + 2);
    if (sign != '+' && At("\n", close + 2)) return close + 3;
    return close + 2;
  }

  void LexComment() {
    const size_t close = text_.find("#}", at_);
    if (close == std::string::npos) throw SyntaxFailure(line_, "Missing end of comment tag");
    const char before = close > at_ ? text_[close - 1] : '\0';
    Advance(AfterClosing(close, before));
  }

  void LexRaw() {
    for (size_t at = text_.find("{%", at_); at != std::string::npos;
         at = text_.find("{%", at + 1)) {
      char sign = '\0';
      size_t p = SkipSpace(ReadSign(at + 2, sign));
      if (!At("endraw", p)) continue;
      p = SkipSpace(p + 6);
      char closing_sign = '\0';
      const size_t close = ReadSign(p, closing_sign);
      if (!At("%}", close)) continue;
      const std::string_view kept =
          TrimBefore(std::string_view(text_).substr(at_, at - at_), sign, false);
      if (!kept.empty()) Emit(TokenType::kData, std::string(kept));
      Advance(AfterClosing(close, closing_sign));
      return;
    }
    throw SyntaxFailure(line_, "Missing end of raw directive");
  }

  // Everything between the braces.
  void LexCode(TokenType begin) {
    Emit(begin, begin == TokenType::kBlockBegin ? "{%" : "{{");
    const bool is_block = begin == TokenType::kBlockBegin;
    std::string open;  // brackets that wait for their partner
    while (at_ < text_.size()) {
      if (open.empty() && LexClosing(is_block)) return;
      const size_t after_space = SkipSpace(at_);
      if (after_space != at_) {
        Advance(after_space);
      } else if (IsDigit(text_[at_])) {
        LexNumber();
      } else if (text_[at_] == '\'' || text_[at_] == '"') {
        LexString();
      } else if (!LexName()) {
        LexOperator(open);
      }
    }
  }

  bool LexClosing(bool is_block) {
    char sign = '\0';
    const size_t close = ReadSign(at_, sign);
    if (is_block && At("%}", close)) {
      Emit(TokenType::kBlockEnd, "%}");
      Advance(AfterClosing(close, sign));
      return true;
    }
    if (!is_block && sign != '+' && At("}}", close)) {
      Emit(TokenType::kVariableEnd, "}}");
      Advance(sign == '-' ? SkipSpace(close + 2) : close + 2);
      return true;
    }
    return false;
  }

  size_t SkipDigits(size_t at) const {
    while (at < text_.size() && (IsDigit(text_[at]) || (text_[at] == '_' && at + 1 < text_.size() &&
                                                        IsDigit(text_[at + 1])))) {
      ++at;
    }
    return at;
  }

  static std::string WithoutUnderscores(std::string_view text) {
    std::string out(text);
    std::erase(out, '_');
    return out;
  }

  void LexNumber() {
    const std::string_view rest = std::string_view(text_).substr(at_);
    if (rest.size() > 2 && rest[0] == '0') {
      const char mark = static_cast<char>(rest[1] | 0x20);
      const int base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
      if (base != 0) {
        const auto is_digit = [base](char c) {
          return base == 16 ? std::isxdigit(static_cast<unsigned char>(c)) != 0
                            : c >= '0' && c < '0' + base;
        };
        size_t end = 2;
        while (end < rest.size() &&
               (is_digit(rest[end]) ||
                (rest[end] == '_' && end + 1 < rest.size() && is_digit(rest[end + 1])))) {
          ++end;
        }
        if (end > 2) return EmitInteger(rest.substr(2, end - 2), base, at_ + end);
      }
    }
    size_t end = SkipDigits(at_);
    const bool after_dot = at_ > 0 && text_[at_ - 1] == '.';
    bool is_float = false;
    if (!after_dot) {
      size_t p = end;
      if (p + 1 < text_.size() && text_[p] == '.' && IsDigit(text_[p + 1])) {
        p = SkipDigits(p + 1);
        is_float = true;
        end = p;
      }
      if (p < text_.size() && (text_[p] == 'e' || text_[p] == 'E')) {
        size_t digits = p + 1;
        if (digits < text_.size() && (text_[digits] == '+' || text_[digits] == '-')) ++digits;
        if (digits < text_.size() && IsDigit(text_[digits])) {
          is_float = true;
          end = SkipDigits(digits);
        }
      }
    }
    const std::string_view digits = std::string_view(text_).substr(at_, end - at_);
    if (!is_float) {
      // "007" is 0, 0, 7 to jinja2: a leading zero stands alone unless all are zeros.
      size_t length = digits.size();
      if (digits[0] == '0') {
        length = std::min(digits.find_first_not_of("0_"), digits.size());
        while (length > 1 && digits[length - 1] == '_') --length;
      }
      return EmitInteger(digits.substr(0, length), 10, at_ + length);
    }
    const std::string plain = WithoutUnderscores(digits);
    Token token{TokenType::kFloat, line_, plain};
    std::from_chars(plain.data(), plain.data() + plain.size(), token.real);
    tokens_.push_back(std::move(token));
    Advance(end);
  }

  void EmitInteger(std::string_view digits, int base, size_t end) {
    const std::string plain = WithoutUnderscores(digits);
    Token token{TokenType::kInteger, line_, plain};
    const auto result =
        std::from_chars(plain.data(), plain.data() + plain.size(), token.integer, base);
    if (result.ec != std::errc())
      throw SyntaxFailure(line_, "the integer " + plain + " does not fit 64 bits");
    tokens_.push_back(std::move(token));
    Advance(end);
  }

  void LexString() {
    const char quote = text_[at_];
    size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) FailCharacter();
    Emit(TokenType::kString, Unescape(std::string_view(text_).substr(at_ + 1, end - at_ - 1)));
    Advance(end + 1);
  }

  std::string Unescape(std::string_view raw) const {
    std::string out;
    for (size_t i = 0; i < raw.size(); ++i) {
      if (raw[i] != '\\') {
        out += raw[i];
        continue;
      }
      const char c = raw[++i];
      switch (c) {
        case '\n':
          break;
        case '\\':
        case '\'':
        case '"':
          out += c;
          break;
        case 'a':
          out += '\a';
          break;
        case 'b':
          out += '\b';
          break;
        case 'f':
          out += '\f';
          break;
        case 'n':
          out += '\n';
          break;
        case 'r':
          out += '\r';
          break;
        case 't':
          out += '\t';
          break;
        case 'v':
          out += '\v';
          break;
        case 'x':
          AppendUtf8(out, HexDigits(raw, i, 2));
          break;
        case 'u':
          AppendUtf8(out, SurrogatePair(raw, i));
          break;
        case 'U':
          AppendUtf8(out, HexDigits(raw, i, 8));
          break;
        case 'N':
          throw SyntaxFailure(line_,
                              "\\N{...} is not supported in a string; use \\u and four hex digits");
        default:
          if (c < '0' || c > '7') {
            out += '\\';
            out += c;
            break;
          }
          char32_t code = 0;
          size_t digits = 0;
          while (digits < 3 && i + digits < raw.size() && raw[i + digits] >= '0' &&
                 raw[i + digits] <= '7') {
            code = code * 8 + static_cast<char32_t>(raw[i + digits++] - '0');
          }
          i += digits - 1;
          AppendUtf8(out, code);
      }
    }
    return out;
  }

  // `i` is at the letter; leaves it at the last digit.
  char32_t HexDigits(std::string_view raw, size_t& i, size_t count) const {
    uint32_t code = 0;
    const std::string_view digits = raw.substr(std::min(i + 1, raw.size()), count);
    const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    if (digits.size() < count || result.ptr != digits.data() + digits.size() || code > 0x10FFFF) {
      throw SyntaxFailure(
          line_, "truncated or illegal \\" + std::string(1, raw[i]) + " escape in a string");
    }
    i += count;
    return code;
  }

  char32_t SurrogatePair(std::string_view raw, size_t& i) const {
    const char32_t high = HexDigits(raw, i, 4);
    if (high < 0xD800 || high > 0xDFFF) return high;
    if (high < 0xDC00 && raw.substr(i + 1, 2) == "\\u") {
      i += 2;
      const char32_t low = HexDigits(raw, i, 4);
      if (low >= 0xDC00 && low <= 0xDFFF) return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    }
    throw SyntaxFailure(line_, "a lone surrogate in a string");
  }

  bool LexName() {
    size_t end = at_;
    while (end < text_.size()) {
      size_t next = end;
      if (!IsIdentifierPart(NextCodePoint(text_, next), end == at_)) break;
      end = next;
    }
    if (end == at_) return false;
    Emit(TokenType::kName, text_.substr(at_, end - at_));
    Advance(end);
    return true;
  }

  void LexOperator(std::string& open) {
    constexpr std::string_view kDouble[] = {"//", "**", "==", "!=", ">=", "<="};
    constexpr std::string_view kSingle = "+-/*%~[](){}><=.:|,;";
    std::string op;
    for (const std::string_view candidate : kDouble) {
      if (At(candidate)) op = candidate;
    }
    if (op.empty() && kSingle.find(text_[at_]) != std::string_view::npos) op = text_[at_];
    if (op.empty()) FailCharacter();
    if (op == "(") open += ')';
    if (op == "[") open += ']';
    if (op == "{") open += '}';
    if (op == ")" || op == "]" || op == "}") {
      if (open.empty()) throw SyntaxFailure(line_, "unexpected '" + op + "'");
      const char expected = open.back();
      open.pop_back();
      if (expected != op[0]) {
        throw SyntaxFailure(line_,
                            "unexpected '" + op + "', expected '" + std::string(1, expected) + "'");
      }
    }
    Emit(TokenType::kOperator, op);
    Advance(at_ + op.size());
  }

  [[noreturn]] void FailCharacter() const {
    size_t next = at_;
    NextCodePoint(text_, next);
    throw SyntaxFailure(
        line_, "unexpected char " + QuotedText(std::string_view(text_).substr(at_, next - at_)));
  }

  void Emit(TokenType type, std::string text) {
    tokens_.push_back(Token{type, line_, std::move(text)});
  }

  std::string text_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_starting_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> Tokenize(const std::string& source) { return Lexer(source).Run(); }

}  // namespace am::text::jinja

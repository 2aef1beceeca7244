// Oniguruma (Ruby syntax) to PCRE2 10.42, for what tokenizers use.
#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/error.h"
#include "worker/text/regex.h"
#include "worker/text/regex_properties.h"
#include "worker/text/utf8.h"

namespace am::text {
namespace {

constexpr std::string_view kAnyCharacter = R"([\x{0}-\x{10ffff}])";

// One set of code points: what stands between the brackets, or an expression that takes exactly one
// character.
struct Set {
  std::string items;
  bool negated = false;
  std::string expression;  // not empty: a set that one pair of brackets cannot say

  std::string Text() const {
    if (!expression.empty()) return expression;
    if (items.empty()) return negated ? std::string(kAnyCharacter) : "(?!)";
    return (negated ? "[^" : "[") + items + "]";
  }
};

Set Union(const Set& a, const Set& b) {
  if (a.expression.empty() && a.items.empty() && !a.negated) return b;
  if (b.expression.empty() && b.items.empty() && !b.negated) return a;
  if (a.expression.empty() && b.expression.empty() && !a.negated && !b.negated)
    return {a.items + b.items};
  return {"", false, "(?:" + a.Text() + "|" + b.Text() + ")"};
}

Set Intersection(const Set& a, const Set& b) {
  return {"", false, "(?:(?=" + a.Text() + ")" + b.Text() + ")"};
}

Set Negation(const Set& a) {
  if (a.expression.empty()) return {a.items, !a.negated};
  return {"", false, "(?:(?!" + a.Text() + ")" + std::string(kAnyCharacter) + ")"};
}

class Rewriter {
 public:
  explicit Rewriter(std::string_view pattern) : in_(pattern) {}

  std::string Run() {
    while (at_ < in_.size()) Element();
    return std::move(out_);
  }

 private:
  [[noreturn]] void Fail(const std::string& what) const {
    throw UserError("the pattern `" + std::string(in_) + "`: " + what + " at offset " +
                    std::to_string(at_));
  }
  bool Looking(std::string_view text) const { return in_.substr(at_, text.size()) == text; }
  void Atom(const std::string& text) {
    atom_ = out_.size();
    out_ += text;
  }

  void Element() {
    const char c = in_[at_];
    if (c == '\\') return Escape();
    if (c == '[') return Atom(ReadClass(0).Text());
    if (c == '(') return Group();
    if (c == ')') {
      ++at_;
      out_ += ')';
      if (!groups_.empty()) {
        atom_ = groups_.back();
        groups_.pop_back();
      }
      return;
    }
    if (c == '{') return Interval();
    if (c == '*' || c == '+' || c == '?' || c == '|' || c == '^' || c == '$') {
      ++at_;
      out_ += c;
      return;
    }
    const size_t begin = at_;
    NextCodePoint(in_, at_);
    Atom(std::string(in_.substr(begin, at_ - begin)));
  }

  // Ruby's (?m) is PCRE2's (?s); ^ and $ are multi-line already.
  void Group() {
    groups_.push_back(out_.size());
    out_ += in_[at_++];
    if (!Looking("?")) return;
    out_ += in_[at_++];
    if (Looking("#")) {  // a comment
      const size_t end = in_.find(')', at_);
      if (end == std::string_view::npos) Fail("a comment without end");
      out_.resize(groups_.back());
      groups_.pop_back();
      at_ = end + 1;
      return;
    }
    if (Looking("<") || Looking("P") || Looking("'")) return;
    const size_t flags = at_;
    while (at_ < in_.size() &&
           (in_[at_] == '-' || std::islower(static_cast<unsigned char>(in_[at_]))))
      ++at_;
    for (const char f : in_.substr(flags, at_ - flags)) {
      if (f != 'i' && f != 'm' && f != 'x' && f != '-') Fail("an option that is not understood");
      out_ += f == 'm' ? 's' : f;
    }
    if (at_ < in_.size() &&
        in_[at_] == ')') {  // (?i) holds to the end of the group: nothing to repeat
      out_ += in_[at_++];
      groups_.pop_back();
    }
  }

  // {,n} is {0,n}, and {n,m}+ is not possessive but a repetition of a repetition.
  void Interval() {
    const size_t close = in_.find('}', at_);
    const std::string_view body =
        close == std::string_view::npos ? "" : in_.substr(at_ + 1, close - at_ - 1);
    const bool interval = !body.empty() && body != "," &&
                          std::count(body.begin(), body.end(), ',') <= 1 &&
                          body.find_first_not_of("0123456789,") == std::string_view::npos;
    if (!interval) {
      ++at_;
      return Atom("\\{");
    }
    at_ = close + 1;
    const std::string text = "{" + std::string(body[0] == ',' ? "0" : "") + std::string(body) + "}";
    if (at_ < in_.size() && in_[at_] == '+') {
      out_.insert(atom_, "(?:");
      out_ += text + ")";
    } else {
      out_ += text;
    }
  }

  void Escape() {
    if (at_ + 1 >= in_.size()) Fail("a backslash at the end");
    const char c = in_[at_ + 1];
    if (c == 'w' || c == 'W') {
      at_ += 2;
      return Atom(Set{std::string(kBareWord), c == 'W'}.Text());
    }
    if (const std::optional<Set> set = ReadSetEscape()) return Atom(set->Text());
    switch (c) {
      case 'b':
      case 'B': {
        const std::string w = "[" + std::string(kBareWord) + "]";
        const bool edge = c == 'b';
        at_ += 2;
        return Atom("(?:(?<=" + w + ")" + (edge ? "(?!" : "(?=") + w + ")|(?<!" + w + ")" +
                    (edge ? "(?=" : "(?!") + w + "))");
      }
      case 'O':
        at_ += 2;
        return Atom(std::string(kAnyCharacter));
      case 'N':
        at_ += 2;
        return Atom("[^\\n]");
      default:
        return Atom(ReadCharacterEscape());
    }
  }

  // \s \S \w \W \d \D \h \H \p{..} \P{..} at the reader, consumed; nothing where another escape
  // stands.
  std::optional<Set> ReadSetEscape() {
    const char c = in_[at_ + 1];
    std::string_view items;
    switch (c) {
      case 's':
      case 'S':
        items = kSpace;
        break;
      case 'w':
      case 'W':
        items = kWord;
        break;
      case 'd':
      case 'D':
        items = R"(\p{Nd})";
        break;
      case 'h':
      case 'H':
        items = kHex;
        break;
      case 'p':
      case 'P':
        return ReadProperty();
      default:
        return std::nullopt;
    }
    at_ += 2;
    return Set{std::string(items), c >= 'A' && c <= 'Z'};
  }

  Set ReadProperty() {
    bool negated = in_[at_ + 1] == 'P';
    at_ += 2;
    std::string_view name;
    if (Looking("{")) {
      const size_t end = in_.find('}', at_);
      if (end == std::string_view::npos) Fail("a property without '}'");
      name = in_.substr(at_ + 1, end - at_ - 1);
      at_ = end + 1;
      if (!name.empty() && name[0] == '^') {
        negated = !negated;
        name.remove_prefix(1);
      }
    } else {
      name = in_.substr(at_, 1);
      at_ += 1;
    }
    if (name.empty()) Fail("a property without a name");
    for (const char c : name) {
      if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-' && c != ' ' &&
          c != '&' && c != '=') {
        Fail("a property name that is not understood");
      }
    }
    if (std::optional<std::string> items = PosixClassItems(CanonicalPropertyName(name))) {
      return {*std::move(items), negated};
    }
    return {(negated ? "\\P{" : "\\p{") + PcreProperty(name) + "}"};
  }

  // Any other escape as one literal or assertion in PCRE2's spelling, consumed.
  std::string ReadCharacterEscape() {
    const char c = in_[at_ + 1];
    if (c == 'v') {
      at_ += 2;
      return "\\x0b";
    }
    if (c == 'u') {
      const std::string_view digits = in_.substr(at_ + 2, 4);
      if (digits.size() != 4) Fail("\\u without four digits");
      at_ += 6;
      return "\\x{" + std::string(digits) + "}";
    }
    if (c == 'x' && in_.substr(at_ + 2, 1) == "{") {
      const size_t end = in_.find('}', at_);
      if (end == std::string_view::npos) Fail("\\x{ without '}'");
      const std::string text(in_.substr(at_, end + 1 - at_));
      at_ = end + 1;
      return text;
    }
    if (c == 'x') {
      size_t end = at_ + 2;
      while (end < in_.size() && end < at_ + 4 &&
             std::isxdigit(static_cast<unsigned char>(in_[end])))
        ++end;
      const std::string text(in_.substr(at_, end - at_));
      at_ = end;
      return text;
    }
    size_t end = at_ + 1;
    NextCodePoint(in_, end);
    const std::string text(in_.substr(at_, end - at_));
    at_ = end;
    return static_cast<unsigned char>(c) < 0x80 ? text : text.substr(1);
  }

  // A class at the reader, from '[' to its ']', with nested classes and &&.
  Set ReadClass(int depth) {
    if (depth > 20) Fail("classes nested too deep");
    ++at_;
    const bool negated = Looking("^");
    if (negated) ++at_;
    std::optional<Set> left;  // what stood before the last &&
    Set current;
    bool first = true;
    for (;; first = false) {
      if (at_ >= in_.size()) Fail("a class without ']'");
      if (in_[at_] == ']' && !first) {
        ++at_;
        break;
      }
      if (Looking("&&")) {
        at_ += 2;
        left = left ? Intersection(*left, current) : current;
        current = Set();
        continue;
      }
      if (Looking("[:")) {
        const size_t end = in_.find(":]", at_);
        if (end != std::string_view::npos) {
          std::string_view name = in_.substr(at_ + 2, end - at_ - 2);
          const bool not_in = !name.empty() && name[0] == '^';
          if (not_in) name.remove_prefix(1);
          std::optional<std::string> items = PosixClassItems(std::string(name));
          if (!items) Fail("an unknown class [:" + std::string(name) + ":]");
          at_ = end + 2;
          current = Union(current, Set{*std::move(items), not_in});
          continue;
        }
      }
      if (in_[at_] == '[') {
        current = Union(current, ReadClass(depth + 1));
        continue;
      }
      if (in_[at_] == '\\') {
        if (at_ + 1 >= in_.size()) Fail("a class without ']'");
        if (const std::optional<Set> set = ReadSetEscape()) {
          current = Union(current, *set);
          continue;
        }
      }
      std::string item = ReadClassCharacter();
      // A range, unless the '-' is the last of the class.
      if (Looking("-") && at_ + 1 < in_.size() && in_[at_ + 1] != ']' && in_[at_ + 1] != '[' &&
          !Looking("-&&")) {
        ++at_;
        item += "-" + ReadClassCharacter();
      }
      current = Union(current, Set{std::move(item)});
    }
    if (left) current = Intersection(*left, current);
    return negated ? Negation(current) : current;
  }

  std::string ReadClassCharacter() {
    if (in_[at_] == '\\') {
      if (at_ + 1 >= in_.size()) Fail("a class without ']'");
      if (in_[at_ + 1] == 'b') {
        at_ += 2;
        return "\\x08";
      }
      return ReadCharacterEscape();
    }
    const size_t begin = at_;
    NextCodePoint(in_, at_);
    const std::string text(in_.substr(begin, at_ - begin));
    const bool special = text == "[" || text == "]" || text == "^" || text == "-";
    return special ? "\\" + text : text;
  }

  std::string_view in_;
  size_t at_ = 0;
  std::string out_;
  size_t atom_ = 0;  // where the last atom begins in out_
  std::vector<size_t> groups_;
};

}  // namespace

std::string RewriteOniguruma(std::string_view pattern) { return Rewriter(pattern).Run(); }

}  // namespace am::text

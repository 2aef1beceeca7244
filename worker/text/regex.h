// Regex: a pattern in the dialect of tokenizer.json (Oniguruma, Ruby syntax), run by PCRE2 with
// JIT.
//
// The dialects differ in white space and word classes, scripts, `(?m)`, `{n,m}+`, nested classes
// and `&&`; the pattern is rewritten (RewriteOniguruma) before it is compiled. Immutable; any
// number of threads may share one.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace am::text {

// The same language in PCRE2's syntax. Throws std::string-carrying am::Error (kUser) for what has
// no counterpart.
std::string RewriteOniguruma(std::string_view pattern);

class Regex {
 public:
  // Throws am::Error (kUser) with the pattern, the place in it and the fault.
  static Regex Compile(std::string_view pattern);
  static Regex Literal(std::string text);  // matches exactly this text

  // First match at or after `from`; the text before `from` is seen by look-behinds.
  bool Find(std::string_view text, size_t from, size_t& begin, size_t& end) const;

  // Calls fn(begin, end) for the matches from left to right, as onig's find_iter does: no empty
  // match right after a match.
  template <typename Fn>
  void ForEachMatch(std::string_view text, Fn fn) const {
    size_t from = 0, last_end = std::string_view::npos, begin = 0, end = 0;
    while (from <= text.size() && Find(text, from, begin, end)) {
      if (begin == end && end == last_end) {
        ++from;
        while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xC0) == 0x80)
          ++from;
        continue;
      }
      from = last_end = end;
      fn(begin, end);
    }
  }

 private:
  struct Code;
  Regex() = default;
  std::shared_ptr<const Code> code_;  // null: literal_
  std::string literal_;
};

}  // namespace am::text

// syntax: what a YAML parser's complaint means for the person who wrote the line. The parser says
// where it gave up; the mistake is often further up: an unclosed quote or bracket, a missing blank
// behind a colon, a tab.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace am::recipe {

// Lines of a text by number (from 1), and bytes of it by place.
class LineIndex {
 public:
  explicit LineIndex(std::string_view text);

  std::string_view text() const { return text_; }
  int count() const { return static_cast<int>(starts_.size()); }
  std::string Line(int line) const;                // without its end; empty where there is none
  size_t Offset(int line, int byte_column) const;  // columns count from 1
  int LineOf(size_t offset) const;
  // Characters from the start of the line to the byte column, counted from 1; and back.
  int CharacterColumn(int line, int byte_column) const;
  int ByteColumn(int line, int character_column) const;

 private:
  std::string_view text_;
  std::vector<size_t> starts_;
};

// The offset of the first byte that is not UTF-8; nothing where all of it is.
std::optional<size_t> InvalidUtf8(std::string_view text);

// The offset of the quote that closes the one at `open`; nothing where none does.
std::optional<size_t> ClosingQuote(std::string_view text, size_t open);

struct SyntaxError {
  int line = 0;
  int column = 0;  // bytes, from 1
  std::string message;
  std::string hint;
  // The whole text as it was probably meant, with lines where they were: what else is wrong with it
  // can be told in the same run. Nothing where the cure is not plain.
  std::optional<std::string> mended = std::nullopt;
};

// The innermost [ or { that is still open at the end of a line.
std::optional<SyntaxError> FindOpenBracket(const LineIndex& lines, int last_line);

// `at` with the parser's own message becomes the likeliest mistake, at its own place.
SyntaxError ExplainSyntax(const LineIndex& lines, SyntaxError at);

// A quote that is not closed on its line is closed there.
void MendQuote(const LineIndex& lines, SyntaxError& error);

}  // namespace am::recipe

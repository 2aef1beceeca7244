#include "launcher/recipe/syntax.h"

#include <algorithm>
#include <cctype>

namespace am::recipe {
namespace {

bool IsBlank(char c) { return c == ' ' || c == '\t'; }

size_t IndentOf(std::string_view line) {
  size_t at = line.find_first_not_of(' ');
  return at == std::string_view::npos ? line.size() : at;
}

bool IsEmptyOrComment(std::string_view line) {
  size_t at = line.find_first_not_of(" \t");
  return at == std::string_view::npos || line[at] == '#';
}

// The bracket or brace that is still open at the end of line `last`, the innermost; as an offset.
std::optional<size_t> OpenBracket(const LineIndex& lines, int last) {
  std::vector<size_t> open;
  for (int number = 1; number <= last; ++number) {
    std::string line = lines.Line(number);
    for (size_t i = 0; i < line.size(); ++i) {
      char c = line[i];
      bool begins = i == 0 || IsBlank(line[i - 1]) ||
                    std::string_view("[{,:").find(line[i - 1]) != std::string_view::npos;
      if (c == '#' && (i == 0 || IsBlank(line[i - 1]))) break;
      if ((c == '"' || c == '\'') && begins) {
        std::optional<size_t> close = ClosingQuote(line, i);
        if (!close) break;
        i = *close;
      } else if ((c == '[' || c == '{') && (begins || !open.empty())) {
        open.push_back(lines.Offset(number, static_cast<int>(i) + 1));
      } else if ((c == ']' || c == '}') && !open.empty()) {
        open.pop_back();
      }
    }
  }
  if (open.empty()) return std::nullopt;
  return open.back();
}

// `seed:42`, where a blank behind the colon is missing.
std::optional<size_t> GluedColon(std::string_view line) {
  size_t at = IndentOf(line);
  while (at < line.size() && (std::isalnum(static_cast<unsigned char>(line[at])) ||
                              line[at] == '_' || line[at] == '-')) {
    ++at;
  }
  bool glued = at > IndentOf(line) && at + 1 < line.size() && line[at] == ':' &&
               !IsBlank(line[at + 1]) && line.find(": ", at) == std::string_view::npos;
  if (!glued) return std::nullopt;
  return at;
}

SyntaxError ExplainMapValue(const LineIndex& lines, SyntaxError at) {
  std::string line = lines.Line(at.line);
  int above = at.line - 1;
  while (above > 0 && IsEmptyOrComment(lines.Line(above))) --above;
  std::string before = lines.Line(above);
  if (above > 0) {
    if (std::optional<size_t> colon = GluedColon(before)) {
      return {above, static_cast<int>(*colon) + 1, "no blank behind the colon",
              "write `key: value`"};
    }
    if (before.find(':') == std::string::npos &&
        before.find_first_not_of(" -") != std::string::npos) {
      return {above, static_cast<int>(IndentOf(before)) + 1, "neither `key: value` nor `key:`",
              "add the colon"};
    }
    bool first_colon = line.find(':') + 1 >= static_cast<size_t>(at.column);
    if (first_colon && IndentOf(line) > IndentOf(before)) {
      return {at.line, static_cast<int>(IndentOf(line)) + 1,
              "indented deeper than the line above, which has a value already",
              "indent it as far as its neighbours"};
    }
  }
  return {at.line, at.column, "a second `: ` in one line", "put the text in quotes"};
}

}  // namespace

LineIndex::LineIndex(std::string_view text) : text_(text), starts_{0} {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') starts_.push_back(i + 1);
  }
}

std::string LineIndex::Line(int line) const {
  if (line < 1 || static_cast<size_t>(line) > starts_.size()) return "";
  size_t begin = starts_[static_cast<size_t>(line) - 1];
  std::string found(text_.substr(begin, text_.find('\n', begin) - begin));
  if (!found.empty() && found.back() == '\r') found.pop_back();
  return found;
}

size_t LineIndex::Offset(int line, int byte_column) const {
  size_t index = std::min(static_cast<size_t>(std::max(line, 1)), starts_.size()) - 1;
  return std::min(text_.size(), starts_[index] + static_cast<size_t>(std::max(byte_column, 1) - 1));
}

int LineIndex::LineOf(size_t offset) const {
  return static_cast<int>(std::upper_bound(starts_.begin(), starts_.end(), offset) -
                          starts_.begin());
}

int LineIndex::CharacterColumn(int line, int byte_column) const {
  std::string_view before =
      text_.substr(Offset(line, 1), Offset(line, byte_column) - Offset(line, 1));
  auto begins = [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; };
  return static_cast<int>(std::count_if(before.begin(), before.end(), begins)) + 1;
}

std::optional<size_t> InvalidUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    auto byte = [&](size_t at) -> unsigned {
      return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
    };
    unsigned first = byte(i);
    size_t length = first < 0x80   ? 1
                    : first < 0xC2 ? 0
                    : first < 0xE0 ? 2
                    : first < 0xF0 ? 3
                    : first < 0xF5 ? 4
                                   : 0;
    if (length == 0) return i;
    // The second byte's range keeps out overlong forms, surrogates and what is above U+10FFFF.
    unsigned least = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
    unsigned most = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
    for (size_t k = 1; k < length; ++k) {
      if (byte(i + k) < least || byte(i + k) > most) return i;
      least = 0x80, most = 0xBF;
    }
    i += length;
  }
  return std::nullopt;
}

std::optional<size_t> ClosingQuote(std::string_view text, size_t open) {
  char quote = text[open];
  for (size_t i = open + 1; i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (text[i] == quote) {
      if (quote == '"' || i + 1 >= text.size() || text[i + 1] != '\'') return i;
      ++i;  // '' is a quote within
    }
  }
  return std::nullopt;
}

std::optional<SyntaxError> FindOpenBracket(const LineIndex& lines, int last_line) {
  std::optional<size_t> open = OpenBracket(lines, last_line);
  if (!open) return std::nullopt;
  int line = lines.LineOf(*open);
  int column = static_cast<int>(*open - lines.Offset(line, 1)) + 1;
  if (lines.text()[*open] == '[') {
    return SyntaxError{line, column, "a [ that is never closed", "close it with ]"};
  }
  return SyntaxError{line, column, "a { that is never closed", "close it with }"};
}

SyntaxError ExplainSyntax(const LineIndex& lines, SyntaxError at) {
  std::string line = lines.Line(at.line);
  size_t indent = IndentOf(line);
  if (indent < line.size() && line[indent] == '\t') {
    return {at.line, static_cast<int>(indent) + 1, "a tab in the indentation",
            "indent with spaces"};
  }
  if (at.message.find("flow") != std::string::npos || at.message == "illegal map value") {
    if (std::optional<SyntaxError> open = FindOpenBracket(lines, at.line)) return *open;
  }
  if (at.message == "illegal map value") return ExplainMapValue(lines, at);
  if (at.message == "end of map not found" || at.message == "end of sequence not found") {
    at.message = "a line that is indented like none of those above it";
    at.hint = "indent it as far as its neighbours";
  }
  return at;
}

}  // namespace am::recipe

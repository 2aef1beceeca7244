#include "launcher/recipe/syntax.h"

#include <algorithm>
#include <cctype>

#include "launcher/recipe/suggest.h"

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

// The text with a line replaced.
std::string WithLine(const LineIndex& lines, int line, std::string_view replacement) {
  std::string text(lines.text());
  return text.replace(lines.Offset(line, 1), lines.Line(line).size(), replacement);
}

// `seed:42`, where a blank behind the colon is missing.
std::optional<size_t> GluedColon(std::string_view line) {
  size_t at = IndentOf(line);
  if (line.substr(at).starts_with("- ")) at += 2;
  size_t begin = at;
  while (at < line.size() && (std::isalnum(static_cast<unsigned char>(line[at])) ||
                              line[at] == '_' || line[at] == '-')) {
    ++at;
  }
  bool glued = at > begin && at + 1 < line.size() && line[at] == ':' && !IsBlank(line[at + 1]) &&
               line.find(": ", at) == std::string_view::npos;
  if (!glued) return std::nullopt;
  return at;
}

// The line above, comments and empty lines aside; 0 where there is none.
int LineAbove(const LineIndex& lines, int line) {
  int above = line - 1;
  while (above > 0 && IsEmptyOrComment(lines.Line(above))) --above;
  return above;
}

// Where the value of a `key: value` begins; the size of the line where it has none.
size_t ValueOf(std::string_view line) {
  size_t colon = line.find(": ");
  if (colon == std::string_view::npos) return line.size();
  return std::min(line.size(), line.find_first_not_of(' ', colon + 1));
}

// `key: value` with the value in quotes.
std::string QuoteValue(const std::string& line) {
  size_t begin = ValueOf(line);
  size_t end = line.find(" #", begin);
  std::string value = line.substr(begin, end == std::string::npos ? end : end - begin);
  std::string quoted = "'";
  for (char c : value) quoted += c == '\'' ? "''" : std::string(1, c);
  return line.substr(0, begin) + quoted + "'" + (end == std::string::npos ? "" : line.substr(end));
}

// A line and what stands below it, as far as it is indented at least as much, moved to `indent`.
std::string Reindent(const LineIndex& lines, int line, size_t indent) {
  size_t from = IndentOf(lines.Line(line));
  std::string text(lines.text().substr(0, lines.Offset(line, 1)));
  bool inside = true;
  for (int number = line; number <= lines.count(); ++number) {
    std::string moved = lines.Line(number);
    inside = inside && (IsEmptyOrComment(moved) || IndentOf(moved) >= from);
    if (inside && !IsEmptyOrComment(moved)) moved.replace(0, from, std::string(indent, ' '));
    text += moved;
    if (number < lines.count()) text += '\n';
  }
  return text;
}

// Tabs at the beginning of lines become blanks: as many as the file indents by, one where it has
// tabs alone.
SyntaxError ExplainTab(const LineIndex& lines, int line, size_t column) {
  size_t step = 0;
  int tabbed = 0;
  for (int number = 1; number <= lines.count(); ++number) {
    std::string text = lines.Line(number);
    size_t indent = IndentOf(text);
    if (IsEmptyOrComment(text)) continue;
    if (text[indent] == '\t') {
      ++tabbed;
    } else if (indent > 0 && (step == 0 || indent < step)) {
      step = indent;
    }
  }
  std::string blanks(std::max<size_t>(step, 1), ' ');
  std::string mended;
  for (int number = 1; number <= lines.count(); ++number) {
    std::string text = lines.Line(number);
    size_t content = std::min(text.size(), text.find_first_not_of(" \t"));
    for (size_t i = 0; i < content; ++i) mended += text[i] == '\t' ? blanks : " ";
    mended += text.substr(content);
    if (number < lines.count()) mended += '\n';
  }
  std::string more =
      tabbed > 1 ? ", here and in " + std::to_string(tabbed - 1) + " more lines" : "";
  if (tabbed == 2) more.pop_back();
  return {line, static_cast<int>(column) + 1, "a tab in the indentation" + more,
          "indent with spaces", mended};
}

// A colon that a second value stands behind: of a missing colon or blank above, of an indentation,
// of text that needs quotes.
SyntaxError ExplainMapValue(const LineIndex& lines, const SyntaxError& at) {
  std::string line = lines.Line(at.line);
  if (int above = LineAbove(lines, at.line); above > 0) {
    std::string before = lines.Line(above);
    int indent = static_cast<int>(IndentOf(before));
    if (std::optional<size_t> colon = GluedColon(before)) {
      std::string spaced = before;
      return {above, static_cast<int>(*colon) + 1, "no blank behind the colon",
              "write `key: value`", WithLine(lines, above, spaced.insert(*colon + 1, " "))};
    }
    if (before.find(':') == std::string::npos &&
        before.find_first_not_of(" -") != std::string::npos) {
      std::string keyed = before;
      size_t end = std::min(keyed.size(), keyed.find_first_of(" =", static_cast<size_t>(indent)));
      if (keyed.substr(end).starts_with("=")) keyed.erase(end, 1);
      return {above, indent + 1, "neither `key: value` nor `key:`", "add the colon",
              WithLine(lines, above, keyed.insert(end, end < keyed.size() ? ": " : ":"))};
    }
    bool first_colon = line.find(':') + 1 >= static_cast<size_t>(at.column);
    if (first_colon && IndentOf(line) > IndentOf(before)) {
      return {at.line, static_cast<int>(IndentOf(line)) + 1,
              "indented deeper than the line above, which has a value already",
              "indent it as far as its neighbours", Reindent(lines, at.line, IndentOf(before))};
    }
  }
  return {at.line, at.column, "a second `: ` in one line", "put the text in quotes",
          WithLine(lines, at.line, QuoteValue(line))};
}

// Text behind the quote that closes a value: `'it's'`.
std::optional<SyntaxError> TextBehindQuote(const LineIndex& lines, int line) {
  std::string text = lines.Line(line);
  size_t begin = ValueOf(text);
  if (begin == text.size()) begin = std::min(text.find_first_not_of(" -"), text.size());
  if (begin >= text.size() || (text[begin] != '"' && text[begin] != '\'')) return std::nullopt;
  std::optional<size_t> close = ClosingQuote(text, begin);
  if (!close) return std::nullopt;
  size_t behind = text.find_first_not_of(" \t", *close + 1);
  if (behind == std::string::npos || text[behind] == '#' || text[behind] == ':') {
    return std::nullopt;
  }
  std::string mended = text.substr(0, begin) + "''";
  return SyntaxError{line, static_cast<int>(behind) + 1, "text behind the closing quote",
                     text[begin] == '"' ? "write a quote within as \\\""
                                        : "write a quote within twice, or put the text in \"",
                     WithLine(lines, line, mended)};
}

// The indentation of the line above that this one probably belongs to.
SyntaxError ExplainIndentation(const LineIndex& lines, SyntaxError at) {
  std::string line = lines.Line(at.line);
  if (std::optional<SyntaxError> quote = TextBehindQuote(lines, at.line)) return *quote;
  int above = LineAbove(lines, at.line);
  if (above > 0) {
    if (std::optional<SyntaxError> quote = TextBehindQuote(lines, above)) return *quote;
  }
  std::string_view content = std::string_view(line).substr(IndentOf(line));
  bool item = content == "-" || content.starts_with("- ");
  at.column = static_cast<int>(IndentOf(line)) + 1;
  if (above > 0 && IndentOf(lines.Line(above)) == IndentOf(line)) {
    at.message = item ? "an element of a list between keys" : "a key between elements of a list";
    at.hint = "indent it as far as what it belongs to";
    return at;
  }
  at.message = "a line that is indented like none of those above it";
  at.hint = "indent it as far as its neighbours";
  if (above > 0) at.mended = Reindent(lines, at.line, IndentOf(lines.Line(above)));
  return at;
}

// `*name`: which anchors there are.
SyntaxError ExplainAlias(const LineIndex& lines, SyntaxError at) {
  std::string line = lines.Line(at.line);
  size_t begin = static_cast<size_t>(at.column - 1);
  if (begin >= line.size() || line[begin] != '*') return at;
  size_t end = std::min(line.size(), line.find_first_of(" ,]}", begin));
  std::string name = line.substr(begin + 1, end - begin - 1);
  std::vector<std::string> above;
  std::optional<int> below;
  for (int number = 1; number <= lines.count(); ++number) {
    std::string text = lines.Line(number);
    for (size_t i = text.find('&'); i != std::string::npos; i = text.find('&', i + 1)) {
      if (i > 0 && !IsBlank(text[i - 1]) && text[i - 1] != '[' && text[i - 1] != '{') continue;
      std::string found =
          text.substr(i + 1, std::min(text.size(), text.find_first_of(" ,]}", i)) - i - 1);
      if (found == name && !below) below = number;
      if (number <= at.line) above.push_back(found);
    }
  }
  at.message = "no anchor &" + name + " stands above";
  if (below) {
    at.message += "; it comes in line " + std::to_string(*below);
    at.hint = "move it above";
  } else {
    std::vector<std::string_view> known(above.begin(), above.end());
    std::string_view near = Nearest(name, known);
    at.hint = near.empty() ? "write the values out" : "did you mean *" + std::string(near) + "?";
  }
  bool merge = line.find("<<") < begin;
  at.mended =
      WithLine(lines, at.line, line.substr(0, begin) + (merge ? "{}" : "~") + line.substr(end));
  return at;
}

// A character that no value may begin with.
SyntaxError ExplainToken(const LineIndex& lines, SyntaxError at) {
  std::string line = lines.Line(at.line);
  size_t index = static_cast<size_t>(at.column - 1);
  if (index >= line.size()) return at;
  at.message = std::string("a value cannot begin with ") + line[index];
  at.hint = "put it in quotes";
  if (index == ValueOf(line)) at.mended = WithLine(lines, at.line, QuoteValue(line));
  return at;
}

SyntaxError ExplainFlowEnd(const LineIndex& lines, SyntaxError at) {
  std::string line = lines.Line(at.line);
  size_t index = static_cast<size_t>(at.column - 1);
  if (index >= line.size()) return at;
  char closer = line[index];
  at.message = std::string("a ") + closer + " that closes nothing";
  at.hint = std::string("remove it, or open it with ") + (closer == ']' ? '[' : '{');
  line[index] = ' ';
  at.mended = WithLine(lines, at.line, line);
  return at;
}

SyntaxError ExplainEscape(const LineIndex& lines, SyntaxError at) {
  std::string line = lines.Line(at.line);
  // The parser stands behind the backslash or behind the character.
  size_t index = std::min(line.size(), static_cast<size_t>(at.column - 1));
  size_t slash = line.rfind('\\', index);
  if (slash == std::string::npos || slash + 1 >= line.size()) return at;
  at.column = static_cast<int>(slash) + 1;
  at.message = "\\" + line.substr(slash + 1, 1) + " is no escape in double quotes";
  at.hint = "use single quotes, or write \\\\";
  at.mended = WithLine(lines, at.line, line.insert(slash, "\\"));
  return at;
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

int LineIndex::ByteColumn(int line, int character_column) const {
  std::string text = Line(line);
  size_t at = 0;
  for (int left = character_column - 1; left > 0 && at < text.size(); --left) {
    do {
      ++at;
    } while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  }
  return static_cast<int>(at) + 1;
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
  std::string closer = lines.text()[*open] == '[' ? "]" : "}";
  SyntaxError error{line, column, std::string("a ") + lines.text()[*open] + " that is never closed",
                    "close it with " + closer};
  // It was probably meant to end before the next line that is a key of the block around it.
  int end = line;
  while (end < lines.count()) {
    std::string next = lines.Line(end + 1);
    size_t key = next.find(':');
    bool block = !IsEmptyOrComment(next) && key != std::string::npos &&
                 next.find_first_of(",[]{}") > key && IndentOf(next) <= IndentOf(lines.Line(line));
    if (block || IsEmptyOrComment(next)) break;
    ++end;
  }
  std::string last = lines.Line(end);
  size_t comment = std::min(last.size(), last.find(" #"));
  error.mended = WithLine(lines, end, last.insert(comment, closer));
  return error;
}

SyntaxError ExplainSyntax(const LineIndex& lines, SyntaxError at) {
  std::string line = lines.Line(at.line);
  size_t indent = IndentOf(line);
  auto says = [&](std::string_view words) { return at.message.find(words) != std::string::npos; };
  if (indent < line.size() && line[indent] == '\t') return ExplainTab(lines, at.line, indent);
  if (says("flow") || says("illegal map value") || says("illegal block entry")) {
    if (std::optional<SyntaxError> open = FindOpenBracket(lines, at.line)) return *open;
  }
  if (says("illegal map value")) return ExplainMapValue(lines, at);
  if (says("end of map not found") || says("end of sequence not found")) {
    return ExplainIndentation(lines, at);
  }
  if (says("referenced anchor")) return ExplainAlias(lines, at);
  if (says("unknown token")) return ExplainToken(lines, at);
  if (says("illegal flow end")) return ExplainFlowEnd(lines, at);
  if (says("unknown escape character") || says("bad character found while scanning hex")) {
    return ExplainEscape(lines, at);
  }
  if (says("illegal block entry")) {
    at.message = "an element of a list behind a value in the same line";
    at.hint = "put the list on lines of its own, or in [ ]";
  } else if (says("after *") || says("scanning alias")) {
    at.message = "a * that no name of an anchor follows";
    at.hint = "put text that begins with * in quotes";
    if (size_t value = ValueOf(line); value < line.size() && line[value] == '*') {
      at.mended = WithLine(lines, at.line, QuoteValue(line));
    }
  } else if (says("after &") || says("scanning anchor")) {
    at.message = "a & that no name follows";
    at.hint = "put text that begins with & in quotes";
    if (size_t value = ValueOf(line); value < line.size() && line[value] == '&') {
      at.mended = WithLine(lines, at.line, QuoteValue(line));
    }
  }
  return at;
}

void MendQuote(const LineIndex& lines, SyntaxError& error) {
  std::string line = lines.Line(error.line);
  size_t open = static_cast<size_t>(error.column - 1);
  if (open >= line.size()) return;
  error.mended = WithLine(lines, error.line, line.substr(0, open) + "''");
}

}  // namespace am::recipe

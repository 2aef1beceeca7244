#include "launcher/recipe/document.h"

#include <absl/strings/str_cat.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>

#include "launcher/recipe/node_builder.h"
#include "launcher/recipe/scalar.h"
#include "launcher/recipe/secret.h"
#include "launcher/recipe/syntax.h"

namespace am::recipe {
namespace {

constexpr int kMostMended = 20;  // syntax errors, in one run

// What one pass over a text gave.
struct Pass {
  std::optional<Node> root;
  Diagnostics problems;
  std::optional<SyntaxError> error;  // the pass ended there
};

SyntaxError AsSyntaxError(const LineIndex& lines, const Refusal& refusal) {
  SyntaxError error{.line = refusal.place.line,
                    .column = lines.ByteColumn(refusal.place.line, refusal.place.column),
                    .message = refusal.message,
                    .hint = refusal.hint};
  if (refusal.kind == Refusal::Kind::kComplexKey) {
    // What is taken for a key may be a bracket that is never closed.
    if (auto open = FindOpenBracket(lines, lines.LineOf(lines.text().size()))) return *open;
  }
  if (refusal.kind == Refusal::Kind::kOpenQuote) MendQuote(lines, error);
  return error;
}

SyntaxError AsSyntaxError(const LineIndex& lines, const YAML::Exception& raised,
                          const NodeBuilder& builder) {
  bool nowhere = raised.mark.is_null() || (raised.mark.line == 0 && raised.mark.column == 0);
  int line = nowhere ? lines.LineOf(lines.text().size()) : raised.mark.line + 1;
  if (builder.long_quote() && builder.long_quote()->second >= line) {
    const auto& [place, last] = *builder.long_quote();
    SyntaxError error{.line = place.line,
                      .column = lines.ByteColumn(place.line, place.column),
                      .message = absl::StrCat("a quote that is closed only on line ", last),
                      .hint = "close it on its own line"};
    MendQuote(lines, error);
    return error;
  }
  return ExplainSyntax(lines, {line, nowhere ? 1 : raised.mark.column + 1, raised.msg});
}

Pass ReadOnce(const LineIndex& lines, const std::string& file) {
  Pass pass;
  NodeBuilder builder(file, lines, pass.problems);
  try {
    std::istringstream stream{std::string(lines.text())};
    YAML::Parser parser(stream);
    if (parser.HandleNextDocument(builder)) {
      pass.root = builder.TakeRoot();
      Diagnostics ignored;
      NodeBuilder second(file, lines, ignored);
      if (parser.HandleNextDocument(second)) {
        std::optional<Node> extra = second.TakeRoot();
        pass.problems.push_back({.place = extra ? extra->place : Place{file},
                                 .message = "a second document begins here",
                                 .hint = "keep one recipe a file"});
      }
    }
  } catch (const YAML::Exception& raised) {
    pass.error = AsSyntaxError(lines, raised, builder);
  } catch (const Refusal& refusal) {
    pass.error = AsSyntaxError(lines, refusal);
  }
  try {
    if (!pass.root) pass.root = builder.TakeRoot();
  } catch (const Refusal&) {
    // A limit, while the open maps are closed: the error is known already.
  }
  if (!pass.root && !pass.error) pass.root = Node{.place = {file, 1, 1}};
  return pass;
}

void Unreadable(const Place& place, std::string message, std::string hint, Diagnostics& out) {
  Diagnostic diagnostic;
  diagnostic.place = place;
  diagnostic.message = std::move(message);
  diagnostic.hint = std::move(hint);
  out.push_back(std::move(diagnostic));
}

// True where the bytes are no text at all.
bool RefuseBytes(const LineIndex& lines, const std::string& file, Diagnostics& out) {
  auto place = [&](size_t offset) {
    int line = lines.LineOf(offset);
    int column = static_cast<int>(offset - lines.Offset(line, 1)) + 1;
    return Place{file, line, lines.CharacterColumn(line, column)};
  };
  if (lines.text().starts_with("\xFF\xFE") || lines.text().starts_with("\xFE\xFF")) {
    Unreadable(Place{file}, "is UTF-16", "save the file as UTF-8", out);
  } else if (size_t zero = lines.text().find('\0'); zero != std::string_view::npos) {
    Unreadable(place(zero), "a zero byte: this is no text file", "name the YAML file of a recipe",
               out);
  } else if (std::optional<size_t> invalid = InvalidUtf8(lines.text())) {
    Unreadable(place(*invalid), "a byte that is not UTF-8", "save the file as UTF-8", out);
  } else {
    return false;
  }
  return true;
}

}  // namespace

bool Node::IsPlainNull() const { return kind == Kind::kScalar && !quoted && IsNullWord(text); }

const NodeEntry* Node::Find(std::string_view key) const {
  for (const NodeEntry& entry : entries) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

Document ReadDocument(std::string_view text, const std::string& file, Diagnostics& out) {
  if (text.size() > kMaxBytes) {
    Unreadable(Place{file}, "larger than 4 MiB", "is this a recipe?", out);
    return {};
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  LineIndex original(text);
  if (RefuseBytes(original, file, out)) return {};

  Document document;
  std::string mended(text);
  while (true) {
    LineIndex lines(mended);
    Pass pass = ReadOnce(lines, file);
    document.root = std::move(pass.root);
    const std::optional<SyntaxError>& error = pass.error;
    int furthest = document.refused_lines.empty() ? 0 : document.refused_lines.back();
    // An error at a line that was mended, or above it, may be of our own making.
    bool news = error && error->line > furthest;
    if (news) {
      std::string line = original.Line(error->line);
      out.push_back(
          {.place = {file, error->line, lines.CharacterColumn(error->line, error->column)},
           .message = error->message,
           .hint = error->hint,
           .excerpt = HoldsSecret(line) ? "" : line});
      document.refused_lines.push_back(error->line);
      if (error->mended && document.refused_lines.size() < kMostMended) {
        mended = *error->mended;
        continue;
      }
    }
    if (error) document.ended = error->line;
    for (Diagnostic& problem : pass.problems) {
      if (!document.Doubts(problem.place)) out.push_back(std::move(problem));
    }
    return document;
  }
}

bool Document::Doubts(const Place& place) const {
  if (place.line == 0) return false;
  return (ended && place.line >= *ended) ||
         std::find(refused_lines.begin(), refused_lines.end(), place.line) != refused_lines.end();
}

std::optional<Node> ParseDocument(std::string_view text, const std::string& file,
                                  Diagnostics& out) {
  size_t before = out.size();
  Document document = ReadDocument(text, file, out);
  bool error = std::any_of(out.begin() + static_cast<long>(before), out.end(),
                           [](const Diagnostic& d) { return d.severity == Severity::kError; });
  if (error) return std::nullopt;
  return std::move(document.root);
}

}  // namespace am::recipe

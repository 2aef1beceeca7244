#include "launcher/recipe/diagnostic.h"

#include <algorithm>
#include <tuple>

namespace am::recipe {
namespace {

constexpr std::string_view kBold = "\x1b[1m";
constexpr std::string_view kRed = "\x1b[1;31m";
constexpr std::string_view kMagenta = "\x1b[1;35m";
constexpr std::string_view kCyan = "\x1b[1;36m";
constexpr std::string_view kReset = "\x1b[0m";

std::string_view ColorOf(Severity severity) {
  switch (severity) {
    case Severity::kInfo:
      return kCyan;
    case Severity::kWarning:
      return kMagenta;
    case Severity::kError:
      return kRed;
  }
  return kReset;
}

// No control character of a recipe reaches a terminal.
std::string Printable(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\t') {
      out += ' ';
    } else if (c == '\n') {
      out += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += '?';
    } else {
      out += c;
    }
  }
  return out;
}

// The excerpt and a caret under its column, which counts characters, not bytes.
std::string Caret(const Diagnostic& diagnostic) {
  std::string line = Printable(diagnostic.excerpt);
  std::string number = std::to_string(diagnostic.place.line);
  std::string margin(number.size(), ' ');
  int columns = std::max(0, diagnostic.place.column - 1);
  return "  " + number + " | " + line + "\n  " + margin + " | " + std::string(columns, ' ') + "^\n";
}

// In the order of the file; what has no line comes last, in the order it was reported.
std::vector<const Diagnostic*> Sorted(const Diagnostics& diagnostics) {
  std::vector<const Diagnostic*> sorted;
  for (const Diagnostic& diagnostic : diagnostics) sorted.push_back(&diagnostic);
  auto key = [](const Diagnostic* d) {
    return std::tuple(d->place.line == 0, d->place.line, d->place.column);
  };
  std::stable_sort(sorted.begin(), sorted.end(),
                   [&](const Diagnostic* a, const Diagnostic* b) { return key(a) < key(b); });
  return sorted;
}

}  // namespace

std::string_view Name(Severity severity) {
  switch (severity) {
    case Severity::kInfo:
      return "info";
    case Severity::kWarning:
      return "warning";
    case Severity::kError:
      return "error";
  }
  return "";
}

std::string ToString(const Place& place) {
  if (place.line == 0) return place.file;
  return place.file + ":" + std::to_string(place.line) + ":" + std::to_string(place.column);
}

bool HasErrors(const Diagnostics& diagnostics) {
  return std::any_of(diagnostics.begin(), diagnostics.end(),
                     [](const Diagnostic& d) { return d.severity == Severity::kError; });
}

void TurnWarningsIntoErrors(Diagnostics& diagnostics) {
  for (Diagnostic& diagnostic : diagnostics) {
    if (diagnostic.severity == Severity::kWarning) diagnostic.severity = Severity::kError;
  }
}

std::string RenderText(const Diagnostics& diagnostics, const RenderOptions& options) {
  std::string out;
  auto paint = [&](std::string_view color, const std::string& text) {
    if (!options.color) return text;
    return std::string(color) + text + std::string(kReset);
  };
  for (const Diagnostic* diagnostic : Sorted(diagnostics)) {
    if (diagnostic->severity < options.least) continue;
    if (diagnostic->place.known()) {
      out += paint(kBold, Printable(ToString(diagnostic->place)) + ":") + " ";
    }
    out += paint(ColorOf(diagnostic->severity), std::string(Name(diagnostic->severity)) + ":");
    out += " ";
    if (!diagnostic->key.empty()) out += Printable(diagnostic->key) + ": ";
    out += Printable(diagnostic->message);
    if (!diagnostic->hint.empty()) out += "; " + Printable(diagnostic->hint);
    out += "\n";
    if (!diagnostic->excerpt.empty()) out += Caret(*diagnostic);
  }
  return out;
}

nlohmann::json ToJson(const Diagnostics& diagnostics) {
  nlohmann::json out = nlohmann::json::array();
  auto number = [](int value) { return value == 0 ? nlohmann::json() : nlohmann::json(value); };
  for (const Diagnostic* diagnostic : Sorted(diagnostics)) {
    out.push_back({{"file", diagnostic->place.file},
                   {"line", number(diagnostic->place.line)},
                   {"column", number(diagnostic->place.column)},
                   {"severity", Name(diagnostic->severity)},
                   {"key", diagnostic->key},
                   {"message", diagnostic->message},
                   {"hint", diagnostic->hint}});
  }
  return out;
}

}  // namespace am::recipe

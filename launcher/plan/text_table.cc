#include "launcher/plan/text_table.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <cmath>

namespace am::plan {
namespace {

bool BeginsCharacter(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

// The first `width` characters, the last of them an ellipsis where some are left out.
std::string Cut(const std::string& text, size_t width) {
  if (DisplayWidth(text) <= width) return text;
  size_t seen = 0, end = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!BeginsCharacter(text[i])) continue;
    if (seen++ + 1 == width) {
      end = i;
      break;
    }
  }
  return text.substr(0, end) + "…";
}

}  // namespace

size_t DisplayWidth(std::string_view text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), BeginsCharacter));
}

TextTable::TextTable(std::vector<std::string> titles) {
  for (std::string& title : titles) {
    left_.push_back(title.starts_with('<'));
    if (left_.back()) title.erase(0, 1);
  }
  rows_.push_back(std::move(titles));
}

void TextTable::Row(std::vector<std::string> cells) {
  cells.resize(left_.size());
  rows_.push_back(std::move(cells));
}

std::string TextTable::Text() const {
  std::vector<size_t> widths(left_.size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], DisplayWidth(row[i]));
  }
  std::string out;
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      line += "  ";
      std::string cell = row[i];
      if (i + 1 == row.size()) {
        size_t used = DisplayWidth(line);
        cell = Cut(cell, used < kPageWidth ? kPageWidth - used : 1);
      }
      std::string pad(widths[i] - std::min(widths[i], DisplayWidth(cell)), ' ');
      line += left_[i] ? cell + (i + 1 == row.size() ? "" : pad) : pad + cell;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string Wrapped(std::string_view text, std::string_view first) {
  std::string out, line(first);
  const std::string indent(DisplayWidth(first), ' ');
  bool begun = false;
  while (!text.empty()) {
    size_t end = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    if (begun && DisplayWidth(line) + 1 + DisplayWidth(word) > kPageWidth) {
      out += line + "\n";
      line = indent;
      begun = false;
    }
    if (begun) line += ' ';
    line += word;
    begun = true;
  }
  return out + line + "\n";
}

std::string Grouped(int64_t value) {
  std::string digits = std::to_string(value);
  for (int at = static_cast<int>(digits.size()) - 3; at > (value < 0 ? 1 : 0); at -= 3) {
    digits.insert(static_cast<size_t>(at), ",");
  }
  return digits;
}

std::string ThreeDigits(double value) {
  double size = std::fabs(value);
  if (size == 0) return "0";
  if (size >= 99.95) return Grouped(std::llround(value));
  if (size >= 9.995) return absl::StrFormat("%.1f", value);
  if (size >= 0.9995) return absl::StrFormat("%.2f", value);
  return absl::StrFormat("%.3g", value);
}

std::string Scaled(double value) {
  constexpr std::pair<double, const char*> kScales[] = {{1e12, " T"}, {1e9, " B"}, {1e6, " M"}};
  for (auto [scale, unit] : kScales) {
    if (value >= scale * 0.9995) return ThreeDigits(value / scale) + unit;
  }
  return Grouped(std::llround(value));
}

std::string Duration(double seconds) {
  if (seconds < 0.9995) return ThreeDigits(seconds * 1e3) + " ms";
  if (seconds < 300) return ThreeDigits(seconds) + " s";
  if (seconds < 3 * 3'600) return ThreeDigits(seconds / 60) + " min";
  if (seconds < 72 * 3'600) return ThreeDigits(seconds / 3'600) + " h";
  return ThreeDigits(seconds / 86'400) + " days";
}

std::string Bar(double share, size_t width) {
  double filled = std::clamp(share, 0.0, 1.0) * static_cast<double>(width);
  size_t whole = static_cast<size_t>(std::lround(filled));
  return std::string(whole, '#') + std::string(width - whole, '.');
}

}  // namespace am::plan

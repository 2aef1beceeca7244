// Text for people: columns that line up, lines that wrap, numbers with three digits. Widths are
// counted in characters, not bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace am::plan {

inline constexpr size_t kPageWidth = 100;

size_t DisplayWidth(std::string_view text);

// Columns two blanks apart, each line indented by two. A column whose title begins with '<' is set
// to the left, others to the right. The last column is cut where the page ends.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> titles);
  void Row(std::vector<std::string> cells);
  std::string Text() const;
  bool empty() const { return rows_.size() == 1; }

 private:
  std::vector<bool> left_;
  std::vector<std::vector<std::string>> rows_;  // the titles first
};

// The text in lines of at most kPageWidth, the first begun with `first`, the others indented as
// far.
std::string Wrapped(std::string_view text, std::string_view first = "  ");

std::string Grouped(int64_t value);           // 87,599
std::string Scaled(double value);             // 8.03 B, 671 B, 1.23 M, 812
std::string ThreeDigits(double value);        // 0.0123, 1.23, 12.3, 123, 1,234
std::string Duration(double seconds);         // 12.3 ms, 4.56 s, 1.5 h, 2.3 days
std::string Bar(double share, size_t width);  // "#####....."

}  // namespace am::plan

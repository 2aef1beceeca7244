// Tables as text: the first line names the columns, each other one is a row, cells are parted by
// tabs. Empty where the file is absent.
//   for (testing::TableRow& row : testing::ReadTable(path)) row["model"] …
#pragma once

#include <filesystem>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "tests/launcher/golden_cases.h"

namespace am::testing {

using TableRow = std::map<std::string, std::string>;  // by the names of the columns

inline std::vector<std::string> Cells(const std::string& line) {
  std::vector<std::string> cells(1);
  for (char c : line) {
    if (c == '\t') {
      cells.emplace_back();
    } else {
      cells.back() += c;
    }
  }
  return cells;
}

inline std::vector<TableRow> ReadTable(const std::filesystem::path& path) {
  std::istringstream lines(ReadFile(path));
  std::string line;
  std::getline(lines, line);
  const std::vector<std::string> names = Cells(line);
  std::vector<TableRow> rows;
  while (std::getline(lines, line)) {
    const std::vector<std::string> cells = Cells(line);
    TableRow& row = rows.emplace_back();
    for (size_t i = 0; i < names.size() && i < cells.size(); ++i) row[names[i]] = cells[i];
  }
  return rows;
}

}  // namespace am::testing

// The recorded runs: each row of the shared table, its recipe of configs/recorded, and the plan on
// the cluster of the row, all from what the project knows of models.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/plan.h"
#include "launcher/recipe/recipe.h"

namespace am::plan {

struct RecordedRun {
  std::string number;                       // "07"
  std::map<std::string, std::string> cell;  // of its row
  std::optional<recipe::Recipe> recipe;
  recipe::Diagnostics diagnostics;  // of the recipe, then of the plan
  std::optional<Plan> plan;         // as it stands
  std::optional<Plan> as_recorded;  // with --flops-convention recorded

  std::string name() const { return number + " " + Cell("model"); }
  std::string Cell(const std::string& column) const {
    auto found = cell.find(column);
    return found == cell.end() ? "" : found->second;
  }
  // Nothing where the cell is empty, a word, or kept back.
  std::optional<double> Figure(const std::string& column) const {
    std::string text = Cell(column);
    if (text.starts_with("~")) text.erase(0, 1);
    if (text.empty() || text.find_first_not_of("0123456789.") != std::string::npos) {
      return std::nullopt;
    }
    return std::stod(text);
  }
  int gpus() const { return static_cast<int>(Figure("gpus").value_or(0)); }
  bool mock() const { return Cell("workload").starts_with("Mock"); }
};

// All rows, planned once. Empty where the shared data is absent.
const std::vector<RecordedRun>& Runs();

// Model TFLOP/s a GPU of a plan, at the recorded step time.
double TflopsPerGpu(const RecordedRun& run, const Plan& plan);

class RecordedRuns : public ::testing::Test {
 protected:
  void SetUp() override {
    if (Runs().empty()) GTEST_SKIP() << "no recorded runs: AMCTL_TEST_DATA names their place";
  }
};

}  // namespace am::plan

#include "tests/launcher/plan/recorded_runs.h"

#include <absl/strings/str_format.h>

#include <filesystem>
#include <sstream>

#include "launcher/model/known.h"
#include "launcher/recipe/load.h"
#include "tests/launcher/golden_cases.h"

namespace am::plan {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> Cells(const std::string& line) {
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

fs::path RecipeOf(const std::string& number) {
  for (const auto& entry :
       fs::directory_iterator(testing::SourceDirectory() / "configs/recorded")) {
    if (entry.path().filename().string().starts_with(number + "-")) return entry.path();
  }
  return {};
}

void MakePlans(RecordedRun& run) {
  recipe::LoadResult loaded = recipe::LoadRecipe({.path = RecipeOf(run.number)});
  run.diagnostics = loaded.diagnostics;
  run.recipe = std::move(loaded.recipe);
  if (!run.recipe) return;
  auto cluster = FindCluster(run.Cell("gpu") == "GB200" ? "gb200-nvl72" : "dgx-h100",
                             [] { return Machine(); });
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  PlanOptions options{.nodes = std::max(1, run.gpus() / cluster->node.gpus),
                      .ranks_per_node = std::min(run.gpus(), cluster->node.gpus)};
  // From the facts of the project alone: no files, no environment.
  auto found = model::FindModelConfig(ModelName(*run.recipe), run.recipe->Undeclared("model"),
                                      [](const std::string&) { return std::nullopt; });
  EXPECT_TRUE(found.ok()) << run.name() << ": " << found.status();
  if (found.ok()) options.model = found->config;
  PlanResult result = MakePlan(*run.recipe, *cluster, options);
  run.diagnostics.insert(run.diagnostics.end(), result.diagnostics.begin(),
                         result.diagnostics.end());
  run.plan = std::move(result.plan);
  options.flops_convention = "recorded";
  run.as_recorded = MakePlan(*run.recipe, *cluster, options).plan;
}

}  // namespace

const std::vector<RecordedRun>& Runs() {
  static const std::vector<RecordedRun> runs = [] {
    std::vector<RecordedRun> read;
    std::istringstream table(
        testing::ReadFile(testing::SharedData() / "oracle" / "performance.tsv"));
    std::string line;
    if (!std::getline(table, line)) return read;
    std::vector<std::string> names = Cells(line);
    while (std::getline(table, line)) {
      RecordedRun run{.number = absl::StrFormat("%02d", read.size())};
      std::vector<std::string> cells = Cells(line);
      for (size_t i = 0; i < names.size() && i < cells.size(); ++i) run.cell[names[i]] = cells[i];
      MakePlans(run);
      read.push_back(std::move(run));
    }
    return read;
  }();
  return runs;
}

double TflopsPerGpu(const RecordedRun& run, const Plan& plan) {
  return plan.estimates.model_flops_per_step.value_or(0) / *run.Figure("step_time_s") / run.gpus() /
         1e12;
}

}  // namespace am::plan

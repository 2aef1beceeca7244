// Every public recipe is laid out on the machines it is meant for, as its table expects. Shared
// data: absent, the test skips.
#include "launcher/plan/plan.h"
#include "tests/launcher/golden_cases.h"

namespace am::plan {
namespace {

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

std::string Text(int64_t value) { return value == 0 ? "" : std::to_string(value); }

TEST(Corpus, EveryPublicRecipeIsLaidOutAsItsTableSays) {
  std::filesystem::path corpus = testing::SharedData() / "corpus";
  std::istringstream table(testing::ReadFile(corpus / "expected.tsv"));
  std::string line;
  if (!std::getline(table, line)) GTEST_SKIP() << "no corpus";
  std::vector<std::string> names = Cells(line);
  auto cluster = FindCluster("dgx-h100", [] { return Machine(); });
  ASSERT_TRUE(cluster.ok());
  int rows = 0;
  while (std::getline(table, line)) {
    std::vector<std::string> cells = Cells(line);
    std::map<std::string, std::string> row;
    for (size_t i = 0; i < names.size(); ++i) row[names[i]] = cells[i];
    recipe::LoadResult loaded = recipe::LoadRecipe({.path = corpus / "recipes" / row["path"]});
    ASSERT_TRUE(loaded.recipe) << recipe::RenderText(loaded.diagnostics);
    PlanResult result = MakePlan(
        *loaded.recipe, *cluster,
        {.nodes = std::stoi(row["nodes"]), .ranks_per_node = std::stoi(row["gpus_per_node"])});
    ++rows;
    EXPECT_EQ(result.plan.has_value(), row["ok"] == "yes")
        << row["path"] << "\n"
        << recipe::RenderText(result.diagnostics);
    if (!result.plan) continue;
    const ParallelDims& d = result.plan->dims;
    const Batch& b = result.plan->batch;
    EXPECT_EQ(Text(d.world()), row["world"]) << row["path"];
    EXPECT_EQ(Text(d.dp()), row["dp"]) << row["path"];
    EXPECT_EQ(Text(d.dp_replicate), row["dp_replicate"]) << row["path"];
    EXPECT_EQ(Text(d.tp), row["tp"]) << row["path"];
    EXPECT_EQ(Text(d.cp), row["cp"]) << row["path"];
    EXPECT_EQ(Text(d.pp), row["pp"]) << row["path"];
    EXPECT_EQ(Text(d.ep), row["ep"]) << row["path"];
    EXPECT_EQ(Text(b.global_batch_size), row["gbs"]) << row["path"];
    EXPECT_EQ(Text(b.local_batch_size), row["lbs"]) << row["path"];
    EXPECT_EQ(Text(b.grad_acc_steps), row["ga"]) << row["path"];
  }
  EXPECT_GT(rows, 300);
}

}  // namespace
}  // namespace am::plan

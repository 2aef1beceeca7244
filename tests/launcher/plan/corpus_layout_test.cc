// Every public recipe is laid out on the machines it is meant for, as its table expects. Shared
// data: absent, the test skips.
#include <chrono>

#include "launcher/plan/find_model.h"
#include "launcher/plan/plan.h"
#include "tests/launcher/golden_cases.h"
#include "tests/launcher/tsv.h"

namespace am::plan {
namespace {

std::string Text(int64_t value) { return value == 0 ? "" : std::to_string(value); }

TEST(Corpus, EveryPublicRecipeIsLaidOutAsItsTableSays) {
  std::filesystem::path corpus = testing::SharedData() / "corpus";
  std::vector<testing::TableRow> table = testing::ReadTable(corpus / "expected.tsv");
  if (table.empty()) GTEST_SKIP() << "no corpus";
  auto cluster = FindCluster("dgx-h100", [] { return Machine(); });
  ASSERT_TRUE(cluster.ok());
  int rows = 0, known = 0;
  double all = 0, longest = 0;
  auto now = [] { return std::chrono::steady_clock::now(); };
  auto nothing = [](const std::string&) { return std::nullopt; };
  for (testing::TableRow& row : table) {
    auto begin = now();
    recipe::LoadResult loaded = recipe::LoadRecipe({.path = corpus / "recipes" / row["path"]});
    ASSERT_TRUE(loaded.recipe) << recipe::RenderText(loaded.diagnostics);
    PlanOptions options{.nodes = std::stoi(row["nodes"]),
                        .ranks_per_node = std::stoi(row["gpus_per_node"])};
    if (auto found = FindModelOf(*loaded.recipe, nothing)) options.model = found->config;
    PlanResult result = MakePlan(*loaded.recipe, *cluster, options);
    double seconds = std::chrono::duration<double>(now() - begin).count();
    all += seconds;
    longest = std::max(longest, seconds);
    known += result.plan && result.plan->estimates.parameters;
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
  EXPECT_GT(known, 100) << "models of the known facts";
  RecordProperty("milliseconds_in_all", static_cast<int>(all * 1e3));
  RecordProperty("microseconds_of_the_longest", static_cast<int>(longest * 1e6));
  std::printf("%d recipes loaded and planned, %d with estimates: %.0f ms, the longest %.1f ms\n",
              rows, known, all * 1e3, longest * 1e3);
}

}  // namespace
}  // namespace am::plan

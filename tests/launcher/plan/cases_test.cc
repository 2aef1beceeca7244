// Every case of cases/ gives the diagnostics beside it: layouts and batches that cannot be met.
#include "launcher/plan/plan.h"
#include "tests/launcher/golden_cases.h"

namespace am::plan {
namespace {

// Llama-3.2-1B's numbers, for head counts.
model::ModelConfig Llama() {
  return {.architectures = {"LlamaForCausalLM"},
          .hidden_size = 2048,
          .num_hidden_layers = 16,
          .num_attention_heads = 32,
          .num_key_value_heads = 8};
}

TEST(PlanCases, RefuseWithTheArithmeticAndTheNearestLegalNumbers) {
  std::vector<testing::GoldenCase> cases = testing::ReadCases("tests/launcher/plan/cases");
  ASSERT_GT(cases.size(), 15u);
  for (testing::GoldenCase& golden : cases) {
    recipe::LoadResult loaded = recipe::LoadRecipe(golden.options);
    ASSERT_TRUE(loaded.recipe) << recipe::RenderText(loaded.diagnostics);
    std::vector<std::string> machines = testing::Words(golden.settings["machines"]);
    PlanOptions options;
    if (golden.settings.contains("llama")) options.model = Llama();
    if (machines.empty()) {
      testing::ExpectDiagnostics(golden, CheckWithoutCluster(*loaded.recipe, options.model));
      continue;
    }
    ASSERT_EQ(machines.size(), 3u) << golden.name();
    auto cluster = FindCluster(machines[0], [] { return Machine{.cores = 8}; });
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    options.nodes = std::stoi(machines[1]);
    options.ranks_per_node = std::stoi(machines[2]);
    PlanResult result = MakePlan(*loaded.recipe, *cluster, options);
    testing::ExpectDiagnostics(golden, result.diagnostics);
    EXPECT_EQ(result.plan.has_value(), !recipe::HasErrors(result.diagnostics)) << golden.name();
  }
}

}  // namespace
}  // namespace am::plan

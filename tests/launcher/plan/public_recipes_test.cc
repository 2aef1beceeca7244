// The estimates against peak memories and step times written into comments of public recipes, each
// recipe loaded as it was published; docs/memory.md and docs/predictor.md have the tables. Skipped
// where the shared data is absent.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/find_model.h"
#include "launcher/plan/memory.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/step_time.h"
#include "launcher/recipe/load.h"
#include "tests/launcher/golden_cases.h"

namespace am::plan {
namespace {

struct Published {
  const char* recipe;
  const char* cluster;
  int nodes, ranks_per_node;
  double said;         // GiB or seconds
  double least, most;  // of estimate / measured
};

// What these runs print is torch.cuda.max_memory_allocated() / 1024³.
constexpr Published kMemory[] = {
    {"llm_benchmark/gpt_oss/gptoss_120b_te_mxfp8_gb200.yaml", "gb200-nvl72", 8, 4, 132.5, 0.9, 1.1},
    {"llm_benchmark/gpt_oss/gptoss_120b_te_deepep_gb200.yaml", "gb200-nvl72", 8, 4, 154.6, 0.9,
     1.12},
    {"llm_benchmark/qwen/qwen3_moe_30b_te_mxfp8_gb200.yaml", "gb200-nvl72", 2, 4, 135.2, 0.95,
     1.05},
    {"llm_benchmark/deepseek/deepseek_v3_sdpa_compile_gb200.yaml", "gb200-nvl72", 16, 4, 107.44,
     0.95, 1.05},
    {"llm_finetune/gpt_oss/gpt_oss_20b_te_packed_sequence.yaml", "dgx-h100", 1, 8, 35, 0.95, 1.05},
    // Not explained: 19 GiB are weights, moments and gathered weights, without any gradient.
    {"llm_finetune/qwen/qwen3_moe_30b_te_chat_thd.yaml", "dgx-h100", 2, 8, 19, 0.9, 2},
};

// No calibration was fitted to these. The second's time stands in qwen3_moe_30b_compile_attn_gb200.
constexpr Published kTime[] = {
    {"llm_benchmark/gpt_oss/gptoss_120b_te_deepep_gb200.yaml", "gb200-nvl72", 8, 4, 3.506, 0.8,
     1.2},
    {"llm_benchmark/qwen/qwen3_moe_30b_te_deepep_gb200.yaml", "gb200-nvl72", 2, 4, 9.183, 0.8, 1.2},
    {"llm_benchmark/qwen/qwen3_moe_30b_te_bf16_gb200.yaml", "gb200-nvl72", 2, 4, 9.237, 0.8, 1.2},
};

std::filesystem::path Recipes() { return testing::SharedData() / "corpus" / "recipes"; }

// Empty, with a failure, where it cannot be planned.
std::optional<Workload> WorkloadOf(const Published& run) {
  // torch.optim keeps its states as the weights are; float32 is the default here.
  const std::vector<std::string> states = {"--optimizer.master_weight_dtype=bfloat16",
                                           "--optimizer.exp_avg_dtype=bfloat16",
                                           "--optimizer.exp_avg_sq_dtype=bfloat16"};
  auto overrides = recipe::ParseOverrides(states);
  auto cluster = FindCluster(run.cluster, [] { return Machine(); });
  if (!overrides.ok() || !cluster.ok()) {
    ADD_FAILURE() << overrides.status() << cluster.status();
    return std::nullopt;
  }
  recipe::LoadResult loaded =
      recipe::LoadRecipe({.path = Recipes() / run.recipe, .overrides = *overrides});
  if (!loaded.recipe) {
    ADD_FAILURE() << recipe::RenderText(loaded.diagnostics);
    return std::nullopt;
  }
  PlanOptions options{.nodes = run.nodes, .ranks_per_node = run.ranks_per_node};
  auto model = FindModelOf(*loaded.recipe, [](const std::string&) { return std::nullopt; });
  if (model) options.model = model->config;
  PlanResult result = MakePlan(*loaded.recipe, *cluster, options);
  if (!result.plan || !result.plan->estimates.workload) {
    ADD_FAILURE() << recipe::RenderText(result.diagnostics);
    return std::nullopt;
  }
  return result.plan->estimates.workload;
}

void Hold(const Published& run, double estimate, const char* unit) {
  double ratio = estimate / run.said;
  std::printf("%-58s said %7.3f %s  estimate %7.3f %s  %+5.1f %%\n", run.recipe, run.said, unit,
              estimate, unit, 100 * (ratio - 1));
  EXPECT_GE(ratio, run.least);
  EXPECT_LE(ratio, run.most);
}

class PublicRecipes : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(Recipes())) {
      GTEST_SKIP() << "no public recipes: AMCTL_TEST_DATA names their place";
    }
  }
};

TEST_F(PublicRecipes, NeedTheMemoryThatTheySayTheyTook) {
  for (const Published& run : kMemory) {
    SCOPED_TRACE(run.recipe);
    std::optional<Workload> workload = WorkloadOf(run);
    if (!workload) continue;
    double estimate = 0;
    for (const Term& term : ExplainMemory(*workload)) {
      bool outside = term.name == "CUDA context" || term.name == "communicators" ||
                     term.name == "fragmentation";
      if (!outside) estimate += term.value;
    }
    Hold(run, estimate, "GiB");
  }
}

TEST_F(PublicRecipes, TakeTheTimeThatTheySayTheyTook) {
  for (const Published& run : kTime) {
    SCOPED_TRACE(run.recipe);
    std::optional<Workload> workload = WorkloadOf(run);
    if (workload) Hold(run, EstimateStepTime(*workload).seconds, "s");
  }
}

}  // namespace
}  // namespace am::plan

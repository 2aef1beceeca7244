#include "launcher/plan/search.h"

#include <absl/strings/str_cat.h>

#include <chrono>

#include "tests/launcher/plan/plans.h"

namespace am::plan {
namespace {

struct Case {
  const char* model;
  const char* sections;
  const char* cluster;
  int nodes;
};

constexpr Case kCases[] = {
    {"meta-llama/Llama-3.1-8B", "step_scheduler: {global_batch_size: 128}", "dgx-h100", 1},
    {"meta-llama/Llama-3.1-8B",
     "step_scheduler: {global_batch_size: 64}\ndistributed: {strategy: ddp}", "dgx-h100", 2},
    {"meta-llama/Llama-3.1-70B",
     "step_scheduler: {global_batch_size: 512, local_batch_size: 2}\ndistributed: {tp_size: 2}",
     "dgx-h100", 8},
    {"meta-llama/Llama-3.1-70B",
     "step_scheduler: {global_batch_size: 32}\npeft: {target_modules: '*_proj', dim: 16}",
     "dgx-h100", 1},
    {"Qwen/Qwen3-30B-A3B",
     "step_scheduler: {global_batch_size: 512, local_batch_size: 4}\ndistributed: {ep_size: 8}",
     "dgx-h100", 1},
    {"deepseek-ai/DeepSeek-V3", "step_scheduler: {global_batch_size: 2048}", "gb200-nvl72", 64},
};

PlanOptions Options(const Case& c) {
  return {.nodes = c.nodes, .model = testing::KnownModel(c.model)};
}

TEST(Search, ProposesWhatThePlanFindsLegalFittingAndNoSlowerThanTheRecipesOwnLayout) {
  for (const Case& c : kCases) {
    recipe::Recipe recipe = testing::BenchmarkRecipe(c.model, c.sections);
    Cluster cluster = testing::ClusterOf(c.cluster);
    PlanOptions options = Options(c);
    SearchResult found = SearchLayouts(recipe, cluster, options);
    ASSERT_TRUE(found.best) << c.model << ": " << found.note;
    EXPECT_TRUE(found.best->fits);

    // Pasted on the command line, it is the plan that was promised.
    std::vector<std::string> words = found.best->overrides;
    auto overrides = recipe::ParseOverrides(words);
    ASSERT_TRUE(overrides.ok()) << overrides.status();
    recipe::LoadResult loaded =
        recipe::LoadRecipe({.path = "r.yaml", .text = recipe.ToYaml(), .overrides = *overrides});
    ASSERT_TRUE(loaded.recipe) << recipe::RenderText(loaded.diagnostics);
    PlanResult planned = MakePlan(*loaded.recipe, cluster, options);
    ASSERT_TRUE(planned.plan) << recipe::RenderText(planned.diagnostics);
    const Estimates& e = planned.plan->estimates;
    EXPECT_DOUBLE_EQ(e.step_time->seconds, found.best->step_time_s) << c.model;
    EXPECT_TRUE(e.memory->fits());

    PlanResult own = MakePlan(recipe, cluster, options);
    ASSERT_TRUE(own.plan);
    EXPECT_EQ(planned.plan->batch.global_batch_size, own.plan->batch.global_batch_size);
    if (own.plan->estimates.memory->fits()) {
      EXPECT_LE(found.best->step_time_s, own.plan->estimates.step_time->seconds) << c.model;
    }
    for (const Proposal& other : found.others) {
      if (other.fits) {
        EXPECT_GE(other.step_time_s, found.best->step_time_s);
      } else {
        EXPECT_GT(other.memory_gib, other.limit_gib);
      }
      EXPECT_FALSE(other.verdict.empty());
    }
  }
}

TEST(Search, FindsTheSameEveryTime) {
  const Case& c = kCases[2];
  recipe::Recipe recipe = testing::BenchmarkRecipe(c.model, c.sections);
  Cluster cluster = testing::ClusterOf(c.cluster);
  PlanOptions options = Options(c);
  EXPECT_EQ(ToJson(SearchLayouts(recipe, cluster, options)),
            ToJson(SearchLayouts(recipe, cluster, options)));
}

TEST(Search, SaysWhyThereIsNoProposal) {
  Cluster cluster = testing::ClusterOf("dgx-h100");
  recipe::Recipe recipe = testing::BenchmarkRecipe("meta-llama/Llama-3.1-8B", "");
  SearchResult unknown = SearchLayouts(recipe, cluster, {.nodes = 1});
  EXPECT_FALSE(unknown.best);
  EXPECT_NE(unknown.note.find("model is not known"), std::string::npos) << unknown.note;

  recipe::Recipe huge = testing::BenchmarkRecipe("deepseek-ai/DeepSeek-V3", "");
  SearchResult none = SearchLayouts(
      huge, cluster, {.nodes = 1, .model = testing::KnownModel("deepseek-ai/DeepSeek-V3")});
  EXPECT_FALSE(none.best);
  EXPECT_FALSE(none.others.empty()) << "those that come nearest";
  EXPECT_NE(none.note.find("fits"), std::string::npos) << none.note;
}

TEST(Search, ProposesALayoutWhereTheRecipesOwnIsRefused) {
  recipe::Recipe recipe = testing::BenchmarkRecipe(
      "meta-llama/Llama-3.1-8B",
      "step_scheduler: {global_batch_size: 64}\ndistributed: {tp_size: 3}");
  SearchResult found =
      SearchLayouts(recipe, testing::ClusterOf("dgx-h100"),
                    {.nodes = 1, .model = testing::KnownModel("meta-llama/Llama-3.1-8B")});
  EXPECT_FALSE(found.own);
  EXPECT_TRUE(found.best);
}

TEST(Search, TakesWellUnderASecondOnSixteenThousandGpus) {
  recipe::Recipe recipe = testing::BenchmarkRecipe("deepseek-ai/DeepSeek-V3",
                                                   "step_scheduler: {global_batch_size: 16384}");
  Cluster cluster = testing::ClusterOf("dgx-h100");
  PlanOptions options{.nodes = 2048, .model = testing::KnownModel("deepseek-ai/DeepSeek-V3")};
  auto begin = std::chrono::steady_clock::now();
  SearchResult found = SearchLayouts(recipe, cluster, options);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_TRUE(found.best) << found.note;
  RecordProperty("milliseconds", static_cast<int>(seconds * 1e3));
  EXPECT_LT(seconds, 10) << "a bound that slow machines meet; a second is meant";
}

TEST(Search, ArithmeticOnAxesAgreesWithPlacement) {
  for (const char* name : {"dgx-h100", "gb200-nvl72", "l40s"}) {
    Cluster cluster = testing::ClusterOf(name);
    int per_node = cluster.node.gpus;
    for (int nodes : {1, 2, 8}) {
      int world = nodes * per_node;
      for (int tp : {1, 2, 4}) {
        for (int pp : {1, 2, 4}) {
          for (int ep : {1, 2, 8}) {
            if (world % (tp * pp) != 0) continue;
            ParallelDims dims{.pp = pp, .dp_shard = world / (tp * pp), .tp = tp, .ep = ep};
            if (dims.dp() % ep != 0) continue;
            Placement placed = Place(dims, cluster, nodes, per_node);
            std::vector<PlannedAxis> axes = AxesOf(dims, cluster, per_node);
            for (size_t i = 0; i < axes.size(); ++i) {
              std::string where = absl::StrCat(name, " nodes ", nodes, " tp ", tp, " pp ", pp,
                                               " ep ", ep, " ", std::string(Name(axes[i].axis)));
              EXPECT_EQ(axes[i].size, placed.axes[i].size) << where;
              EXPECT_EQ(axes[i].fabric, placed.axes[i].fabric) << where;
              EXPECT_EQ(axes[i].gb_per_s, placed.axes[i].gb_per_s) << where;
              EXPECT_EQ(axes[i].ranks_in_domain, placed.axes[i].ranks_in_domain) << where;
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace am::plan

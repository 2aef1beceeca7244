#include "launcher/plan/checkpoint_size.h"

#include <gmock/gmock.h>

#include "tests/launcher/plan/plans.h"

namespace am::plan {
namespace {

using ::testing::HasSubstr;

constexpr double kGib = 1 << 30;

recipe::Recipe Load(const std::string& sections) {
  return am::testing::BenchmarkRecipe("meta-llama/Llama-3.2-1B", sections);
}

CheckpointSize SizeOf(const recipe::Recipe& recipe) {
  PlanResult plan =
      MakePlan(recipe, am::testing::ClusterOf("dgx-h100"),
               {.nodes = 1, .model = am::testing::KnownModel("meta-llama/Llama-3.2-1B")});
  EXPECT_TRUE(plan.plan) << recipe::RenderText(plan.diagnostics);
  return SizeOfCheckpoint(*plan.plan->estimates.workload, recipe);
}

TEST(CheckpointSize, OfFullTrainingIsWeightsStatesAndAnExport) {
  CheckpointSize size = SizeOf(Load(""));
  constexpr double kParameters = 1235814400;
  EXPECT_EQ(size.weights, kParameters * 2);
  EXPECT_EQ(size.states, kParameters * 12);
  EXPECT_EQ(size.exported, kParameters * 2);
}

TEST(CheckpointSize, OfAnAdapterIsTheAdapters) {
  CheckpointSize size =
      SizeOf(Load("peft: {_target_: nemo_automodel.components._peft.lora.PeftConfig, dim: 8, "
                  "target_modules: ['*_proj']}\n"));
  EXPECT_EQ(size.exported, 0);
  EXPECT_GT(size.weights, 0);
  EXPECT_LT(size.Sum(), 0.1 * kGib);
}

TEST(CheckpointSize, TooLittleDiskIsNamedBeforeTheFirstSave) {
  recipe::Recipe recipe =
      Load("checkpoint: {checkpoint_dir: /data/run, max_recent_checkpoints: 3}\n");
  CheckpointSize size{.weights = 2 * kGib, .states = 12 * kGib, .exported = 2 * kGib};
  recipe::Diagnostics out;
  CheckDisk(recipe, size, 64 * kGib, out);
  EXPECT_TRUE(out.empty());
  CheckDisk(recipe, size, 63 * kGib, out);
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].severity, recipe::Severity::kWarning);
  EXPECT_THAT(out[0].message, HasSubstr("3 kept and one being written take 64 GiB"));
  CheckDisk(recipe, size, 15 * kGib, out);
  EXPECT_EQ(out[1].severity, recipe::Severity::kError);
  EXPECT_THAT(
      recipe::RenderText(out),
      HasSubstr("r.yaml:4:30: error: checkpoint.checkpoint_dir: a checkpoint takes 16 GiB "
                "(weights 2 GiB, optimizer 12 GiB, export 2 GiB), and 15 GiB are free; free "
                "some space or choose another directory"));
}

TEST(CheckpointSize, IsNoMatterWhereNoneIsSaved) {
  recipe::Diagnostics out;
  CheckDisk(Load("checkpoint: {enabled: false}\n"), {.weights = kGib}, 0, out);
  EXPECT_TRUE(out.empty());
}

}  // namespace
}  // namespace am::plan

#include "launcher/plan/cost.h"

#include "tests/launcher/plan/recipes.h"

namespace am::plan {
namespace {

recipe::Recipe Load(const std::string& sections) {
  recipe::LoadResult loaded =
      recipe::LoadRecipe({.path = "r.yaml",
                          .text = "recipe: TrainFinetuneRecipeForNextTokenPrediction\n"
                                  "model: {pretrained_model_name_or_path: m}\n" +
                                  sections});
  EXPECT_TRUE(loaded.recipe) << recipe::RenderText(loaded.diagnostics);
  return loaded.recipe.value_or(recipe::Recipe());
}

constexpr char kSquad[] =
    "dataset: {_target_: make_squad_dataset, dataset_name: rajpurkar/squad}\n";

TEST(LengthOfRun, IsTheLesserOfStepsAndEpochs) {
  struct Case {
    std::string sections;
    std::optional<int64_t> steps;
  };
  const Case kCases[] = {
      {std::string(kSquad) + "step_scheduler: {num_epochs: 1}", 2738},  // 87,599 / 32, rounded up
      {std::string(kSquad) + "step_scheduler: {num_epochs: 2, max_steps: 100}", 100},
      {std::string(kSquad) + "step_scheduler: {num_epochs: 1, max_steps: 100000}", 2738},
      {std::string(kSquad) + "step_scheduler: {num_epochs: 1}\ndataloader: {drop_last: true}",
       2737},
      {kSquad, 27380},  // ten epochs where the recipe is silent
      {std::string(kSquad) + "packed_sequence: {packed_sequence_size: 4096}", std::nullopt},
      {std::string(kSquad) +
           "packed_sequence: {packed_sequence_size: 4096}\nstep_scheduler: {max_steps: 7}",
       7},
      {"dataset: {_target_: make_squad_dataset, dataset_name: somebody/else}", std::nullopt},
      {"dataset: {_target_: make_squad_dataset, dataset_name: d, limit_dataset_samples: 64}\n"
       "step_scheduler: {num_epochs: 1}",
       2},
      {"dataset: {_target_: make_squad_dataset, dataset_name: d, split: 'train[:320]'}\n"
       "step_scheduler: {num_epochs: 1}",
       10},
      {"dataset: {_target_: MockIterableDataset, num_samples: 3200}\n"
       "step_scheduler: {num_epochs: 1}",
       100},
  };
  for (const Case& c : kCases) {
    RunLength length = LengthOfRun(Load(c.sections), {.global_batch_size = 32});
    EXPECT_EQ(length.steps, c.steps) << c.sections << length.reason;
    EXPECT_FALSE(length.reason.empty()) << c.sections;
  }
}

TEST(CostOfRun, SaysWhatItCannotKnow) {
  RunLength length{.steps = 3600};
  NodeShape node{.gpus = 8};
  RunCost cost = CostOfRun(length, 2.0, 16, node);
  EXPECT_DOUBLE_EQ(*cost.days, 1.0 / 12);
  EXPECT_DOUBLE_EQ(*cost.gpu_hours, 32);
  EXPECT_FALSE(cost.price);
  EXPECT_NE(cost.reason.find("price_per_gpu_hour"), std::string::npos);
  node.price_per_gpu_hour = 2.5;
  EXPECT_DOUBLE_EQ(*CostOfRun(length, 2.0, 16, node).price, 80);
  EXPECT_FALSE(CostOfRun({}, 2.0, 16, node).days);
  EXPECT_FALSE(CostOfRun(length, std::nullopt, 16, node).days);
}

}  // namespace
}  // namespace am::plan

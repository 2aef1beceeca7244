// The public recipes and the guide's recipe load unchanged. Their files are shared data, not ours:
// absent, the tests skip.
#include <chrono>

#include "tests/launcher/golden_cases.h"

namespace am::recipe {
namespace {

std::vector<std::filesystem::path> CorpusFiles() {
  std::filesystem::path folder = testing::SharedData() / "corpus" / "recipes";
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::is_directory(folder)) return files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  return files;
}

TEST(Corpus, EveryPublicRecipeLoadsAndPrintsBack) {
  std::vector<std::filesystem::path> files = CorpusFiles();
  if (files.empty()) GTEST_SKIP() << "no corpus";
  auto begin = std::chrono::steady_clock::now();
  for (const auto& file : files) {
    LoadResult result = LoadRecipe({.path = file});
    ASSERT_TRUE(result.recipe) << RenderText(result.diagnostics);
    LoadResult again = LoadRecipe({.path = file, .text = result.recipe->ToYaml()});
    ASSERT_TRUE(again.recipe) << RenderText(again.diagnostics);
    EXPECT_EQ(result.recipe->root(), again.recipe->root()) << file;
  }
  std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  RecordProperty("ms_per_load", std::to_string(took.count() / 2 / files.size()));
}

TEST(Guide, TheFullConfigLoadsUnchanged) {
  std::string guide = testing::ReadFile(testing::SharedData() / "seeds" / "sft_peft_guide.txt");
  size_t begin = guide.find("# Recipe\n# Selects");
  size_t end = guide.find("Config Field Reference#");
  if (begin == std::string::npos || end == std::string::npos) GTEST_SKIP() << "no guide";
  LoadResult result =
      LoadRecipe({.path = "guide.yaml", .text = guide.substr(begin, end - begin), .strict = true});
  ASSERT_TRUE(result.recipe) << RenderText(result.diagnostics);
  const Recipe& recipe = *result.recipe;
  EXPECT_EQ(recipe.Int("step_scheduler.grad_acc_steps"), 4);
  EXPECT_EQ(recipe.Int("dataloader.batch_size"), 8);
  EXPECT_EQ(recipe.Int("rng.seed"), 1111);
  EXPECT_EQ(recipe.Strings("peft.target_modules"), std::vector<std::string>{"*.proj"});
  EXPECT_EQ(recipe.String("checkpoint.save_consolidated"), "every");
  EXPECT_EQ(recipe.Part("optimizer"), "adam");
  EXPECT_DOUBLE_EQ(recipe.Float("optimizer.eps"), 1e-8);
  EXPECT_EQ(recipe.Int("validation_dataset.limit_dataset_samples"), 64);
  EXPECT_FALSE(recipe.OptInt("distributed.dp_size"));
}

TEST(OurRecipes, LoadWithoutAWarning) {
  for (const auto& entry :
       std::filesystem::directory_iterator(testing::SourceDirectory() / "configs" / "recipes")) {
    LoadResult result = LoadRecipe({.path = entry.path(), .strict = true});
    EXPECT_TRUE(result.recipe) << RenderText(result.diagnostics);
  }
}

}  // namespace
}  // namespace am::recipe

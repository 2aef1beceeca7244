// Every case of cases/ gives the diagnostics beside it.
#include "tests/launcher/golden_cases.h"

namespace am::recipe {
namespace {

TEST(RecipeCases, SayWhatIsWrongAndWhereWordForWord) {
  std::vector<testing::GoldenCase> cases = testing::ReadCases("tests/launcher/recipe/cases");
  ASSERT_GT(cases.size(), 30u);
  for (const testing::GoldenCase& golden : cases) {
    LoadResult result = LoadRecipe(golden.options);
    testing::ExpectDiagnostics(golden, result.diagnostics);
    EXPECT_EQ(result.recipe.has_value(), !HasErrors(result.diagnostics)) << golden.name();
  }
}

TEST(RecipeCases, APrintedRecipeLoadsToTheSameRecipe) {
  for (testing::GoldenCase& golden : testing::ReadCases("tests/launcher/recipe/cases")) {
    LoadResult first = LoadRecipe(golden.options);
    if (!first.recipe) continue;
    golden.options.text = first.recipe->ToYaml();
    golden.options.overrides.clear();
    LoadResult second = LoadRecipe(golden.options);
    ASSERT_TRUE(second.recipe) << golden.name() << "\n" << RenderText(second.diagnostics);
    EXPECT_EQ(first.recipe->root(), second.recipe->root()) << *golden.options.text;
  }
}

TEST(RecipeCases, NoSecretIsEverShown) {
  for (const testing::GoldenCase& golden : testing::ReadCases("tests/launcher/recipe/cases")) {
    LoadResult result = LoadRecipe(golden.options);
    std::string shown = RenderText(result.diagnostics) + ToJson(result.diagnostics).dump();
    if (result.recipe) shown += result.recipe->ToYaml();
    EXPECT_EQ(shown.find("SWORDFISH"), std::string::npos) << golden.name() << "\n" << shown;
  }
}

TEST(RecipeFiles, AreNamedWhenTheyCannotBeRead) {
  LoadResult missing = LoadRecipe({.path = "/nowhere/recipe.yaml"});
  EXPECT_EQ(RenderText(missing.diagnostics),
            "/nowhere/recipe.yaml: error: no such file; name the YAML file of a recipe\n");
  LoadResult directory = LoadRecipe({.path = "/tmp"});
  EXPECT_EQ(RenderText(directory.diagnostics),
            "/tmp: error: is a directory, not a recipe; name the YAML file of a recipe\n");
}

}  // namespace
}  // namespace am::recipe

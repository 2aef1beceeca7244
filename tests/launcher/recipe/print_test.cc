#include "launcher/recipe/print.h"

#include <gmock/gmock.h>

#include "launcher/recipe/schema.h"
#include "tests/launcher/golden_cases.h"

namespace am::recipe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kText[] =
    "recipe: TrainFinetuneRecipeForNextTokenPrediction\n"
    "model:\n"
    "  pretrained_model_name_or_path: ${MODEL,org/m}\n"
    "dataset:\n"
    "  _target_: make_squad_dataset\n"
    "  dataset_name: org/d\n"
    "rng: {seed: 7}\n"
    "x-mine: {hf_token: abc, list: [1, {a: b}], empty: {}, text: 'a # b', none: null}\n";

Recipe Load(const std::string& text, std::vector<std::string> overrides = {}) {
  auto parsed = ParseOverrides(overrides);
  EXPECT_TRUE(parsed.ok());
  LoadResult result = LoadRecipe({.path = "r.yaml", .text = text, .overrides = *parsed});
  EXPECT_TRUE(result.recipe) << RenderText(result.diagnostics) << text;
  return result.recipe.value_or(Recipe());
}

TEST(Print, NamesTheOriginOfEachValueInOneColumn) {
  EXPECT_EQ(PrintWithOrigins(
                Load(kText, {"--optimizer.lr=1e-4", "--peft.dim", "4", "--peft.match_all_linear"})),
            "recipe: TrainFinetuneRecipeForNextTokenPrediction  # r.yaml:1\n"
            "model:\n"
            "  pretrained_model_name_or_path: ${MODEL,org/m}    # r.yaml:3, environment MODEL\n"
            "dataset:\n"
            "  _target_: make_squad_dataset                     # r.yaml:5\n"
            "  dataset_name: org/d                              # r.yaml:6\n"
            "rng:\n"
            "  seed: 7                                          # r.yaml:7\n"
            "x-mine:\n"
            "  hf_token: \"******\"                               # r.yaml:8\n"
            "  list:\n"
            "    - 1                                            # r.yaml:8\n"
            "    -\n"
            "      a: b                                         # r.yaml:8\n"
            "  empty: {}                                        # r.yaml:8\n"
            "  text: \"a # b\"                                    # r.yaml:8\n"
            "  none: null                                       # r.yaml:8\n"
            "optimizer:\n"
            "  lr: 1e-4                                         # --optimizer.lr=1e-4\n"
            "peft:\n"
            "  dim: 4                                           # --peft.dim=4\n"
            "  match_all_linear: true                           # --peft.match_all_linear=true\n");
}

TEST(Print, AddsTheDefaultsOfTheSectionsThatHold) {
  std::string text = PrintWithOrigins(Load(kText), {.defaults = true});
  EXPECT_THAT(text, HasSubstr("\nstep_scheduler:\n  global_batch_size: 32 "));
  EXPECT_THAT(text, HasSubstr("# default\n"));
  EXPECT_THAT(text, Not(HasSubstr("\nseed:"))) << "rng.seed is given, and would lose to it";
  EXPECT_THAT(text, Not(HasSubstr("\noptimizer:"))) << "without the section another one is meant";
  EXPECT_THAT(PrintWithOrigins(Load(std::string(kText) + "step_scheduler: {grad_acc_steps: 2}\n"),
                               {.defaults = true}),
              Not(HasSubstr("global_batch_size")));
}

TEST(Print, LoadsToTheSameRecipe) {
  for (const auto& golden : testing::ReadCases("tests/launcher/recipe/cases")) {
    LoadResult first = LoadRecipe(golden.options);
    if (!first.recipe) continue;
    LoadOptions options = golden.options;
    options.overrides.clear();
    options.text = PrintWithOrigins(*first.recipe);
    LoadResult second = LoadRecipe(options);
    ASSERT_TRUE(second.recipe) << *options.text << RenderText(second.diagnostics);
    EXPECT_EQ(first.recipe->root(), second.recipe->root()) << *options.text;
  }
}

// With defaults a recipe says more, but the same: what it is asked for gives the same values.
TEST(Print, WithDefaultsMeansTheSame) {
  for (const auto& entry :
       std::filesystem::directory_iterator(testing::SourceDirectory() / "configs" / "recipes")) {
    LoadResult first = LoadRecipe({.path = entry.path()});
    ASSERT_TRUE(first.recipe);
    std::string text = PrintWithOrigins(*first.recipe, {.defaults = true});
    LoadResult second = LoadRecipe({.path = entry.path(), .text = text, .strict = true});
    ASSERT_TRUE(second.recipe) << text << RenderText(second.diagnostics);
    for (const char* key : {"step_scheduler.global_batch_size", "step_scheduler.num_epochs",
                            "distributed.tp_size", "seed", "peft.dim"}) {
      EXPECT_EQ(first.recipe->OptInt(key), second.recipe->OptInt(key)) << entry.path() << key;
    }
    EXPECT_EQ(PrintWithOrigins(*second.recipe).find("# default"), std::string::npos);
  }
}

TEST(Print, JsonHoldsValuesAndOrigins) {
  nlohmann::json json = JsonWithOrigins(Load(kText, {"--optimizer.lr=1e-4"}));
  EXPECT_EQ(json["recipe"]["optimizer"]["lr"], 1e-4);
  EXPECT_EQ(json["recipe"]["x-mine"]["hf_token"], "******");
  EXPECT_EQ(json["recipe"]["model"]["pretrained_model_name_or_path"], "${MODEL,org/m}");
  EXPECT_EQ(json["origins"]["optimizer.lr"],
            (nlohmann::json{{"kind", "override"}, {"override", "--optimizer.lr=1e-4"}}));
  EXPECT_EQ(json["origins"]["rng.seed"],
            (nlohmann::json{{"kind", "file"}, {"file", "r.yaml"}, {"line", 7}, {"column", 13}}));
  EXPECT_EQ(json["origins"]["model.pretrained_model_name_or_path"]["environment"][0], "MODEL");
  EXPECT_EQ(json["origins"]["x-mine.list.1.a"]["line"], 8);
}

TEST(Print, FindsTheVariablesOfAText) {
  EXPECT_THAT(VariablesOf("${A}/$B/${oc.env:C,x}/$$D/${A}/5$"), ElementsAre("A", "B", "C"));
  EXPECT_TRUE(VariablesOf("none").empty());
}

}  // namespace
}  // namespace am::recipe

// Faults that users of such launchers met, of recipes: one test for each kind.
#include "launcher/recipe/override.h"
#include "tests/launcher/golden_cases.h"

namespace am::recipe {
namespace {

constexpr char kBase[] = R"(recipe: TrainFinetuneRecipeForNextTokenPrediction
model:
  pretrained_model_name_or_path: meta-llama/Llama-3.2-1B
dataset:
  _target_: nemo_automodel.components.datasets.llm.squad.make_squad_dataset
)";

struct Said {
  LoadResult result;
  std::string text;
};

Said Load(const std::string& more, std::vector<std::string> overrides = {},
          std::map<std::string, std::string> variables = {}) {
  LoadOptions options{.path = "r.yaml", .text = kBase + more};
  options.overrides = *ParseOverrides(overrides);
  options.environment = [variables](const std::string& name) -> std::optional<std::string> {
    auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  Said said{.result = LoadRecipe(options)};
  said.text = RenderText(said.result.diagnostics);
  return said;
}

TEST(Faults, A1ANumberIsNeverTakenForTextForLackOfADot) {
  for (auto [written, value] :
       {std::pair{"1e-5", 1e-5}, std::pair{"1E5", 1e5}, std::pair{".5", 0.5},
        std::pair{"+1e-3", 1e-3}, std::pair{"1_000", 1000.0}, std::pair{"'2e-5'", 2e-5}}) {
    Said said = Load(std::string("optimizer: {lr: ") + written + "}\n");
    ASSERT_TRUE(said.result.recipe) << said.text;
    EXPECT_DOUBLE_EQ(said.result.recipe->Float("optimizer.lr"), value) << written;
  }
  EXPECT_EQ(Load("optimizer: {lr: fast}\n").text,
            "r.yaml:6:17: error: optimizer.lr: expected a number of at least 0, got fast\n");
}

TEST(Faults, A2AKeyThatStandsTwiceIsAnErrorWithBothPlaces) {
  EXPECT_EQ(Load("optimizer:\n  lr: 1\n  eps: 1e-8\n  lr: 2\n").text,
            "r.yaml:9:3: error: optimizer.lr: stands twice in this map, first at r.yaml:7:3; "
            "remove one of the two\n");
  Said twins = Load("x-mine: {Name: a, name: b}\n");
  EXPECT_TRUE(twins.result.recipe);
  EXPECT_NE(twins.text.find("warning: x-mine.name: differs from Name"), std::string::npos);
}

TEST(Faults, A3AWordIsABooleanOnlyWhereABooleanIsMeant) {
  Said said = Load("slurm: {partition: no}\ndataloader: {shuffle: no, drop_last: on}\n");
  ASSERT_TRUE(said.result.recipe) << said.text;
  EXPECT_EQ(said.result.recipe->String("slurm.partition"), "no");
  EXPECT_FALSE(said.result.recipe->Bool("dataloader.shuffle"));
  EXPECT_TRUE(said.result.recipe->Bool("dataloader.drop_last"));
  EXPECT_EQ(Load("dataloader: {shuffle: y}\n").text,
            "r.yaml:6:23: error: dataloader.shuffle: expected true or false, got y; write true\n");
}

TEST(Faults, A5ATimeLimitThatCannotBeReadIsNeverUnlimited) {
  Said said = Load("slurm: {time: '2-12x'}\n");
  EXPECT_FALSE(said.result.recipe);
  EXPECT_NE(said.text.find("slurm.time: expected a time limit"), std::string::npos) << said.text;
}

TEST(Faults, A6AnUnknownKeyIsAnErrorWithTheNearestOne) {
  EXPECT_EQ(Load("step_scheduler: {max_step: 3}\n").text,
            "r.yaml:6:18: error: step_scheduler.max_step: unknown key; did you mean max_steps?\n");
  EXPECT_EQ(Load("x-notes: {}\n_shared: {}\nci: {}\n").text, "");
}

TEST(Faults, A7AnEmptySectionIsNamedWithItsPlace) {
  Said said = Load("optimizer:\n  # lr: 1e-5\n");
  ASSERT_TRUE(said.result.recipe);
  EXPECT_NE(said.text.find("r.yaml:6:1: warning: optimizer: the section is empty at 6:1"),
            std::string::npos)
      << said.text;
  LoadResult model = LoadRecipe({.path = "r.yaml",
                                 .text = "recipe: TrainFinetuneRecipeForNext"
                                         "TokenPrediction\nmodel:\n"});
  EXPECT_NE(RenderText(model.diagnostics).find("r.yaml:2:1: error: model: the section is empty"),
            std::string::npos);
}

TEST(Faults, A8ASyntaxErrorIsShownWithItsLineAndNothingIsGuessed) {
  Said said = Load("seed: 'abc\n");
  EXPECT_FALSE(said.result.recipe);
  EXPECT_EQ(said.text,
            "r.yaml:6:7: error: a quote that is never closed; close it with '\n"
            "  6 | seed: 'abc\n    |       ^\n");
  EXPECT_NE(Load("optimizer:\n\tlr: 1\n").text.find("r.yaml:7:1: error: a tab"), std::string::npos);
}

TEST(Faults, A10LongLinesArePrintedAsTheyWere) {
  std::string line = "echo 'a' | " + std::string(300, 'x') + " && true";
  Said said = Load("x-setup:\n  run: |\n    " + line + "\n    second\n");
  ASSERT_TRUE(said.result.recipe) << said.text;
  std::string printed = said.result.recipe->ToYaml();
  LoadResult again = LoadRecipe({.path = "r.yaml", .text = printed});
  ASSERT_TRUE(again.recipe);
  EXPECT_EQ(again.recipe->Free("x-setup")["run"], line + "\nsecond\n");
}

TEST(Faults, A11VariablesAreLaidIntoValuesNotIntoText) {
  std::string odd = "a\"b: {\n\t'c' # d";
  Said said = Load("checkpoint: {checkpoint_dir: \"${NAME}/x\"}\n", {}, {{"NAME", odd}});
  ASSERT_TRUE(said.result.recipe) << said.text;
  EXPECT_EQ(said.result.recipe->String("checkpoint.checkpoint_dir"), odd + "/x");
  EXPECT_NE(Load("checkpoint: {checkpoint_dir: $NAME}\n").text.find("NAME is not set"),
            std::string::npos);
}

TEST(Faults, A13OverridesAndOptionsDoNotMeet) {
  Said said = Load("", {"optimizer.lr=3e-4", "--seed", "7"});
  ASSERT_TRUE(said.result.recipe) << said.text;
  EXPECT_DOUBLE_EQ(said.result.recipe->Float("optimizer.lr"), 3e-4);
  EXPECT_EQ(said.result.recipe->Int("seed"), 7);
  EXPECT_EQ(ToString(said.result.recipe->PlaceOf("seed")), "--seed=7");
  EXPECT_FALSE(ParseOverrides(std::vector<std::string>{"train.lr=3"}).ok());
}

TEST(Faults, A14AnIncludeIsRefusedAndNothingIsLeftNull) {
  for (const char* include :
       {"extends: base.yaml\n", "defaults: [base]\n", "_base_: b.yaml\n", "include: [a.yaml]\n"}) {
    Said said = Load(include);
    EXPECT_FALSE(said.result.recipe);
    EXPECT_NE(said.text.find("recipes have no includes"), std::string::npos) << said.text;
  }
  EXPECT_NE(Load("optimizer: !include o.yaml\n").text.find("a recipe is one file"),
            std::string::npos);
}

TEST(Faults, A15ANameThatIsTooLongForAClusterIsRefusedWithAShorterOne) {
  std::string name(70, 'n');
  Said said = Load("kubernetes: {namespace: " + name + "}\n");
  EXPECT_FALSE(said.result.recipe);
  EXPECT_NE(said.text.find("has 70 characters, more than 63; use " + name.substr(0, 63)),
            std::string::npos)
      << said.text;
  EXPECT_NE(Load("kubernetes: {namespace: My_Team}\n").text.find("use my-team"), std::string::npos);
}

}  // namespace
}  // namespace am::recipe

#include "launcher/recipe/override.h"

#include <gtest/gtest.h>

#include "launcher/recipe/load.h"

namespace am::recipe {
namespace {

constexpr char kText[] =
    "recipe: TrainFinetuneRecipeForNextTokenPrediction\n"
    "model: {pretrained_model_name_or_path: some/model}\n"
    "dataset: {_target_: make_squad_dataset, dataset_name: data}\n"
    "peft: {target_modules: [q_proj, v_proj], dim: 8}\n";

LoadResult Load(const std::vector<std::string>& arguments) {
  auto overrides = ParseOverrides(arguments);
  EXPECT_TRUE(overrides.ok()) << overrides.status();
  return LoadRecipe({.path = "r.yaml", .text = kText, .overrides = *overrides});
}

TEST(Overrides, AreReadInBothForms) {
  LoadResult result = Load({"--distributed.tp_size=2", "--peft.dim", "16", "optimizer.lr=1e-4",
                            "--checkpoint.enabled", "--seed", "-0"});
  ASSERT_TRUE(result.recipe) << RenderText(result.diagnostics);
  EXPECT_EQ(result.recipe->Int("distributed.tp_size"), 2);
  EXPECT_EQ(result.recipe->Int("peft.dim"), 16);
  EXPECT_EQ(result.recipe->Float("optimizer.lr"), 1e-4);
  EXPECT_TRUE(result.recipe->Bool("checkpoint.enabled"));
}

TEST(Overrides, AFlagBeforeAnotherOptionIsTrue) {
  auto overrides = ParseOverrides(std::vector<std::string>{"--checkpoint.enabled", "--seed=1"});
  ASSERT_TRUE(overrides.ok());
  EXPECT_EQ((*overrides)[0].value, "true");
}

TEST(Overrides, ReachIntoLists) {
  LoadResult result = Load({"--peft.target_modules.0=k_proj", "--peft.target_modules.2=o_proj"});
  ASSERT_TRUE(result.recipe) << RenderText(result.diagnostics);
  EXPECT_EQ(result.recipe->Strings("peft.target_modules"),
            (std::vector<std::string>{"k_proj", "v_proj", "o_proj"}));
}

TEST(Overrides, SetNullAndDelete) {
  EXPECT_FALSE(Load({"--peft=null"}).recipe->Has("peft"));
  EXPECT_FALSE(Load({"--peft", "none"}).recipe->Has("peft"));
  LoadResult deleted = Load({"--peft-"});
  EXPECT_EQ(deleted.recipe->Find("peft"), nullptr);
  LoadResult element = Load({"--peft.target_modules.0-"});
  EXPECT_EQ(element.recipe->Strings("peft.target_modules"), std::vector<std::string>{"v_proj"});
  EXPECT_TRUE(Load({"--quantization-"}).recipe) << "nothing to delete is fine";
}

TEST(Overrides, TakeListsMapsAndTextWithColons) {
  LoadResult result = Load({"--peft.target_modules=['*_proj', \"lm_head\"]",
                            "--optimizer={_target_: torch.optim.SGD, lr: 0.1}",
                            "--checkpoint.checkpoint_dir=a: b # c"});
  ASSERT_TRUE(result.recipe) << RenderText(result.diagnostics);
  EXPECT_EQ(result.recipe->Strings("peft.target_modules"),
            (std::vector<std::string>{"*_proj", "lm_head"}));
  EXPECT_EQ(result.recipe->Part("optimizer"), "sgd");
  EXPECT_EQ(result.recipe->String("checkpoint.checkpoint_dir"), "a: b # c");
}

TEST(Overrides, AreTheirOwnPlaceInDiagnostics) {
  LoadResult result = Load({"--peft.dim=many"});
  ASSERT_FALSE(result.recipe);
  EXPECT_EQ(result.diagnostics[0].place.file, "--peft.dim=many");
  EXPECT_EQ(result.diagnostics[0].key, "peft.dim");
}

TEST(Overrides, RefuseWhatIsNone) {
  auto status = [](std::vector<std::string> arguments) {
    return std::string(ParseOverrides(arguments).status().message());
  };
  EXPECT_EQ(status({"--step_schedular.max_steps=3"}),
            "--step_schedular.max_steps=3: no option and no section of a recipe; did you mean "
            "--step_scheduler?");
  EXPECT_EQ(status({"stray"}), "stray: an argument that is not expected");
  EXPECT_EQ(status({"--wandb.api_key=abc"}), "");
}

TEST(Overrides, HideSecrets) {
  auto overrides = ParseOverrides(std::vector<std::string>{"--comet.api_key=SWORDFISH"});
  EXPECT_EQ((*overrides)[0].text, "--comet.api_key=******");
}

}  // namespace
}  // namespace am::recipe

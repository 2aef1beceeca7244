// What a loaded recipe says when it is asked.
#include <gtest/gtest.h>

#include "launcher/recipe/load.h"

namespace am::recipe {
namespace {

Recipe Load(const std::string& text) {
  LoadResult result =
      LoadRecipe({.path = "r.yaml",
                  .text = text,
                  .environment = [](const std::string& name) -> std::optional<std::string> {
                    if (name == "STEPS") return "25";
                    if (name == "DIR") return "/data/run";
                    return std::nullopt;
                  }});
  EXPECT_TRUE(result.recipe) << RenderText(result.diagnostics);
  return result.recipe ? *result.recipe : Recipe();
}

constexpr char kBase[] =
    "recipe: TrainFinetuneRecipeForNextTokenPrediction\n"
    "model: {pretrained_model_name_or_path: m}\n"
    "dataset: {_target_: make_squad_dataset, dataset_name: d}\n";

TEST(Recipe, TypesValuesByTheirKeys) {
  Recipe recipe = Load(std::string(kBase) +
                       "optimizer: {_target_: torch.optim.AdamW, lr: 1e-5, fused: yes}\n"
                       "checkpoint: {checkpoint_dir: on, is_async: off, save_consolidated: True}\n"
                       "step_scheduler: {max_steps: 1_000, num_epochs: none}\n");
  EXPECT_EQ(recipe.Float("optimizer.lr"), 1e-5);
  EXPECT_TRUE(recipe.Bool("optimizer.fused"));
  EXPECT_EQ(recipe.String("checkpoint.checkpoint_dir"), "on");
  EXPECT_FALSE(recipe.Bool("checkpoint.is_async"));
  EXPECT_EQ(recipe.String("checkpoint.save_consolidated"), "every");
  EXPECT_EQ(recipe.Int("step_scheduler.max_steps"), 1000);
  EXPECT_FALSE(recipe.OptInt("step_scheduler.num_epochs"));
}

TEST(Recipe, FallsBackToTheDefaultsOfTheSchema) {
  Recipe recipe = Load(kBase);
  EXPECT_EQ(recipe.Int("step_scheduler.global_batch_size"), 32);
  EXPECT_EQ(recipe.OptInt("step_scheduler.num_epochs"), 10);
  EXPECT_FALSE(recipe.OptInt("step_scheduler.max_steps"));
  EXPECT_EQ(recipe.OptFloat("clip_grad_norm.max_norm"), 1.0);
  EXPECT_EQ(recipe.Floats("optimizer.betas"), (std::vector<double>{0.9, 0.999}));
  EXPECT_EQ(recipe.Part("loss_fn"), "masked_ce");
  EXPECT_FALSE(recipe.Has("peft"));
}

TEST(Recipe, DefaultsDependOnThePartThatIsNamed) {
  EXPECT_EQ(Load(std::string(kBase) + "optimizer: {_target_: torch.optim.AdamW}\n")
                .Float("optimizer.weight_decay"),
            0.01);
  EXPECT_EQ(Load(std::string(kBase) + "optimizer: {_target_: torch.optim.Adam}\n")
                .Float("optimizer.weight_decay"),
            0.0);
}

TEST(Recipe, ExpandsTheEnvironmentAndPrintsTheToken) {
  Recipe recipe = Load(std::string(kBase) +
                       "step_scheduler: {max_steps: '${STEPS}'}\n"
                       "checkpoint: {checkpoint_dir: '${oc.env:DIR}/x'}\n");
  EXPECT_EQ(recipe.Int("step_scheduler.max_steps"), 25);
  EXPECT_EQ(recipe.String("checkpoint.checkpoint_dir"), "/data/run/x");
  EXPECT_NE(recipe.ToYaml().find("${oc.env:DIR}/x"), std::string::npos);
  EXPECT_EQ(recipe.ToYaml().find("/data/run"), std::string::npos);
}

TEST(Recipe, QuotedTextIsTextAndPlainNullIsNull) {
  Recipe recipe = Load(std::string(kBase) + "x-mine: {a: 'null', b: null, c: ~, d: \"7\", e: 7}\n");
  EXPECT_EQ(recipe.Free("x-mine").dump(), R"({"a":"null","b":null,"c":null,"d":"7","e":7})");
}

TEST(Recipe, NamesValidationSets) {
  Recipe recipe =
      Load(std::string(kBase) +
           "validation_dataset: {_target_: make_squad_dataset, dataset_name: v}\n"
           "validation_dataset_hard: {_target_: make_squad_dataset, dataset_name: h}\n");
  ASSERT_EQ(recipe.ValidationSets().size(), 2u);
  EXPECT_EQ(recipe.ValidationSets()[0].name, "default");
  EXPECT_EQ(recipe.ValidationSets()[1].name, "hard");
  EXPECT_EQ(recipe.String("validation_dataset_hard.dataset_name"), "h");
}

TEST(Recipe, GathersUndeclaredKeysOfTheModel) {
  Recipe recipe = Load(
      "recipe: TrainFinetuneRecipeForNextTokenPrediction\n"
      "model: {pretrained_model_name_or_path: m, num_hidden_layers: 2, rope_theta: 1e4}\n"
      "dataset: {_target_: make_squad_dataset, dataset_name: d}\n");
  EXPECT_EQ(recipe.Undeclared("model").dump(), R"({"num_hidden_layers":2,"rope_theta":10000.0})");
}

TEST(Recipe, KnowsWhereEachValueStands) {
  Recipe recipe = Load(kBase);
  EXPECT_EQ(ToString(recipe.PlaceOf("model.pretrained_model_name_or_path")), "r.yaml:2:40");
  EXPECT_EQ(ToString(recipe.PlaceOf("model.torch_dtype")), "r.yaml:2:8");
  EXPECT_EQ(ToString(recipe.PlaceOf("peft.dim")), "r.yaml");
}

TEST(Recipe, MergesAnchoredMaps) {
  Recipe recipe = Load(std::string(kBase) +
                       "x-base: &base {batch_size: 4, shuffle: false}\n"
                       "dataloader: {<<: *base, batch_size: 8}\n");
  EXPECT_EQ(recipe.Int("dataloader.batch_size"), 8);
  EXPECT_FALSE(recipe.Bool("dataloader.shuffle"));
}

}  // namespace
}  // namespace am::recipe

#include "launcher/recipe/explain.h"

#include <gmock/gmock.h>

#include "launcher/recipe/json_schema.h"
#include "launcher/recipe/schema.h"

namespace am::recipe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(Explain, SaysAllThatTheSchemaKnowsOfAKey) {
  EXPECT_EQ(*ExplainText("distributed.tp_size"),
            "distributed.tp_size\n"
            "  ranks that share each weight matrix (tensor parallel)\n"
            "\n"
            "  type      an integer (ranks), or null\n"
            "  default   1\n"
            "  support   understood and planned for, refused by amctl run but for 1 0 -1; use 1\n");
  EXPECT_THAT(*ExplainText("restart.grace_s"), HasSubstr("default   60"));
}

TEST(Explain, PartsThatSayTheSameShareAParagraph) {
  std::string text = *ExplainText("optimizer.weight_decay");
  EXPECT_THAT(text, HasSubstr("with _target_ torch.optim.Adam\n  with _target_ torch.optim.SGD\n"));
  EXPECT_THAT(text, HasSubstr("default   0.01"));
}

TEST(Explain, WhatIsNotDoneWithASectionIsNotDoneWithItsKeys) {
  EXPECT_THAT(*ExplainText("flow_matching.adapter_kwargs.fps"), HasSubstr("refused by amctl run"));
  EXPECT_THAT(*ExplainText("optimizer.scalar_lr"), HasSubstr("refused by amctl run"));
  EXPECT_THAT(*ExplainText("wandb.project"), HasSubstr("accepted with a warning, not done"));
}

TEST(Explain, ListsTheKeysOfASection) {
  std::string text = *ExplainText("checkpoint");
  EXPECT_THAT(text, HasSubstr("\n  checkpoint_dir "));
  EXPECT_THAT(*ExplainText("optimizer"), HasSubstr("_target_ may be:\n  torch.optim.Adam\n"));
  EXPECT_THAT(*ExplainText(""), HasSubstr("\n  step_scheduler "));
}

TEST(Explain, KnowsKeysWithinListsAndSetsOfTheUsersNaming) {
  EXPECT_TRUE(ExplainText("dataset.data_dir_list.0.path"));
  EXPECT_TRUE(ExplainText("dataset.data_dir_list[].path"));
  EXPECT_TRUE(ExplainText("validation_dataset_hard.seq_length"));
  EXPECT_TRUE(ExplainText("slurm.env.OMP_NUM_THREADS"));
  EXPECT_THAT(*ExplainText("validation_dataloader.shuffle"), Not(HasSubstr("names the set")));
  EXPECT_FALSE(ExplainText("optimizer.rl"));
  EXPECT_FALSE(ExplainText("optimizer.lr.x"));
  EXPECT_FALSE(ExplainText("."));
}

TEST(Explain, NamesTheNearestKeys) {
  EXPECT_THAT(KeysLike("optimizer.wieght_decay"), ElementsAre("optimizer.weight_decay"));
  EXPECT_THAT(KeysLike("grad_acc_steps"), ElementsAre("step_scheduler.grad_acc_steps"));
  EXPECT_THAT(KeysLike("frobnicate.the.thing"), IsEmpty());
}

TEST(Explain, JsonHasTheSameInFields) {
  nlohmann::json json = *ExplainJson("peft.dim");
  ASSERT_EQ(json["declarations"].size(), 1u);
  nlohmann::json dim = json["declarations"][0];
  EXPECT_EQ(dim["type"], "int");
  EXPECT_EQ(dim["default"], 8);
  EXPECT_EQ(dim["least"], 1);
  EXPECT_EQ(dim["part"], "lora");
  EXPECT_EQ(dim["support"], "honoured");
  EXPECT_EQ((*ExplainJson("optimizer"))["declarations"][0]["parts"][0]["name"], "adam");
  EXPECT_FALSE(ExplainJson("optimizer.rl"));
}

TEST(JsonSchema, RefersOnlyToWhatItDefines) {
  nlohmann::ordered_json schema = JsonSchema();
  std::string text = schema.dump();
  for (size_t at = text.find("#/$defs/"); at != std::string::npos;
       at = text.find("#/$defs/", at + 1)) {
    std::string name = text.substr(at + 8, text.find('"', at) - at - 8);
    EXPECT_TRUE(schema["$defs"].contains(name)) << name;
  }
  for (const Key& key : kRecipeSchema.keys) {
    if (key.name.ends_with('*')) continue;
    EXPECT_TRUE(schema["properties"].contains(std::string(key.name))) << key.name;
  }
  EXPECT_EQ(schema["properties"]["seed"]["default"], 42);
  EXPECT_EQ(text.find("oneOfParts"), std::string::npos);
}

}  // namespace
}  // namespace am::recipe

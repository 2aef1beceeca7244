#include "worker/engine/peft/lora.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "worker/engine/model/causal_lm.h"

namespace am::engine {
namespace {

struct Case {
  std::vector<std::string> targets;
  std::string module;
  bool matches;
};

TEST(LoraTest, MatchesModulesAsTheGuideMeansThem) {
  const std::string q = "model.layers.0.self_attn.q_proj", up = "model.layers.11.mlp.up_proj";
  for (const Case& c : std::vector<Case>{
           {{"*.proj"}, q, true},  // `.` is any one character, as the guide's own pattern needs
           {{"*_proj"}, up, true},
           {{"*"}, q, true},
           {{"model.layers.*.mlp.*"}, up, true},
           {{"model.layers.*.mlp.*"}, q, false},
           {{".*q_proj"}, q, true},
           {{"q_proj"}, q, true},
           {{"proj"}, q, false},
           {{"q_proj"}, up, false},
           {{q}, q, true},
           {{"*.layers.0.*", "*.layers.11.*"}, up, true},
           {{}, q, true},  // none given: every projection
           {{}, "lm_head", false},
       }) {
    PeftSpec spec;
    spec.target_modules = c.targets;
    EXPECT_EQ(MatchesPeft(spec, c.module), c.matches)
        << (c.targets.empty() ? "" : c.targets[0]) << " on " << c.module;
  }
}

TEST(LoraTest, AdaptsAllButTheExcludedModules) {
  PeftSpec spec;
  spec.exclude_modules = {"*mlp*"};
  EXPECT_TRUE(MatchesPeft(spec, "model.layers.0.self_attn.q_proj"));
  EXPECT_FALSE(MatchesPeft(spec, "model.layers.0.mlp.up_proj"));
}

ModelConfig Config() {
  ModelConfig config;
  config.vocab_size = 32;
  config.hidden_size = 16;
  config.intermediate_size = 24;
  config.num_layers = 1;
  config.num_heads = config.num_kv_heads = 2;
  config.head_dim = 8;
  return config;
}

TEST(LoraTest, StacksTheAdaptersOfAFusedLinearAndFreezesTheRest) {
  CausalLm model(Config());
  PeftSpec spec;
  spec.target_modules = {"q_proj", "v_proj"};
  spec.dim = 4;
  EXPECT_THAT(AttachLora(model, spec), ::testing::ElementsAre("model.layers.0.self_attn.q_proj",
                                                              "model.layers.0.self_attn.v_proj"));
  const Lora& lora = *model.Linears()[0]->lora;
  EXPECT_THAT(lora.a.shape, ::testing::ElementsAre(8, 16));
  EXPECT_THAT(lora.b.shape, ::testing::ElementsAre(32, 4));
  EXPECT_EQ(lora.targets[1].out_begin, 32) << "v stands behind q and k";
  EXPECT_EQ(lora.targets[1].b_begin, 16);
  for (const auto& unit : model.Units())
    for (const Parameter* parameter : unit)
      EXPECT_EQ(parameter->trainable, parameter->name.find(".lora_") != std::string::npos)
          << parameter->name;
}

TEST(LoraTest, ListsTheLinearsWhenNothingMatches) {
  CausalLm model(Config());
  PeftSpec spec;
  spec.target_modules = {"query"};
  try {
    AttachLora(model, spec);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("model.layers.0.self_attn.q_proj"));
  }
}

}  // namespace
}  // namespace am::engine

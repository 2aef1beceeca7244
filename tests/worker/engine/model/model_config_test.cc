#include "worker/engine/model/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"

namespace am::engine {
namespace {

using nlohmann::json;

json Llama() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"vocab_size", 100},
          {"hidden_size", 64},
          {"intermediate_size", 128},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4}};
}

std::string Fault(const json& config) {
  try {
    ParseModelConfig(config);
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    return error.what();
  }
}

TEST(ModelConfigTest, FillsInWhatOlderConfigsLeaveOut) {
  const ModelConfig config = ParseModelConfig(Llama());
  EXPECT_EQ(config.num_kv_heads, 4);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.rope.theta, 10000);
  EXPECT_FALSE(config.qkv_bias);
}

TEST(ModelConfigTest, ReadsRopeInTheOldAndTheNewForm) {
  json old_form = Llama(), new_form = Llama();
  old_form["rope_theta"] = 5e5;
  old_form["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}};
  new_form["rope_parameters"] = {{"rope_theta", 5e5}, {"rope_type", "linear"}, {"factor", 4.0}};
  for (const json& form : {old_form, new_form}) {
    const RopeConfig rope = ParseModelConfig(form).rope;
    EXPECT_EQ(rope.type, "linear");
    EXPECT_EQ(rope.theta, 5e5);
    EXPECT_EQ(rope.factor, 4);
  }
}

TEST(ModelConfigTest, KnowsWhereTheFamiliesHaveBiases) {
  json qwen = Llama();
  qwen["architectures"] = {"Qwen2ForCausalLM"};
  EXPECT_TRUE(ParseModelConfig(qwen).qkv_bias);
  EXPECT_FALSE(ParseModelConfig(qwen).attention_out_bias);
  json llama = Llama();
  llama["attention_bias"] = true;
  EXPECT_TRUE(ParseModelConfig(llama).attention_out_bias);
}

TEST(ModelConfigTest, NamesTheKeyThatCannotBeTrained) {
  json config = Llama();
  config["architectures"] = {"MambaForCausalLM"};
  EXPECT_THAT(Fault(config), ::testing::HasSubstr("'MambaForCausalLM' cannot be trained yet"));
  config = Llama();
  config["hidden_act"] = "gelu";
  EXPECT_THAT(Fault(config), ::testing::HasSubstr("hidden_act"));
  config = Llama();
  config["num_key_value_heads"] = 3;
  EXPECT_THAT(Fault(config),
              ::testing::HasSubstr("num_key_value_heads 3 does not divide num_attention_heads 4"));
  config = Llama();
  config.erase("vocab_size");
  EXPECT_THAT(Fault(config), ::testing::HasSubstr("vocab_size is missing"));
  config = Llama();
  config["rope_scaling"] = {{"rope_type", "longrope"}};
  EXPECT_THAT(Fault(config), ::testing::HasSubstr("'longrope'"));
}

}  // namespace
}  // namespace am::engine

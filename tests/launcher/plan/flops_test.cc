#include "launcher/plan/flops.h"

#include <nlohmann/json.hpp>

#include "tests/launcher/golden_cases.h"

namespace am::plan {
namespace {

using model::ModelShape;
using nlohmann::json;

// The text part of a multimodal config.json, where fields are laid over it.
json& TextOf(json& config) {
  for (const char* part : {"text_config", "llm_config"}) {
    if (config.contains(part)) return config[part];
  }
  return config;
}

json ReadConfig(const std::string& model) {
  std::string text = testing::ReadFile(testing::SharedData() / "models" / model / "config.json");
  return json::parse(text, nullptr, false);
}

ModelShape ShapeFrom(const json& config) {
  auto shape = model::ShapeOf(config);
  EXPECT_TRUE(shape.ok()) << shape.status();
  return shape.ok() ? *shape : ModelShape();
}

double FlopsOf(const std::string& model, FlopsInput input) {
  return ModelFlops(ShapeFrom(ReadConfig(model)), input).per_token;
}

double Sum(const FlopsEstimate& estimate) {
  double sum = 0;
  for (const Term& term : estimate.terms) sum += term.value;
  return sum;
}

// flops_expected.py writes the formulas down a second time, and their values in flops_expected.tsv.
TEST(Flops, OfEveryFamilyAreThoseOfItsPublishedFormula) {
  if (testing::SharedData().empty()) GTEST_SKIP() << "no shared data";
  std::istringstream table(
      testing::ReadFile(testing::SourceDirectory() / "tests/launcher/plan/flops_expected.tsv"));
  std::string line;
  ASSERT_TRUE(std::getline(table, line));
  int rows = 0;
  std::string model, convention;
  double expected = 0;
  for (FlopsInput input;
       table >> model >> input.seq_length >> convention >> input.mtp_depths >> expected; ++rows) {
    json config = ReadConfig(model);
    ASSERT_TRUE(config.is_object()) << model;
    // Recipes lay the depths that they train over config.json.
    json& text = TextOf(config);
    if (input.mtp_depths > 0 && text.value("num_nextn_predict_layers", 0) == 0 &&
        !text.contains("mtp_num_hidden_layers") && !text.contains("mtp_num_layers_in_checkpoint")) {
      text["num_nextn_predict_layers"] = input.mtp_depths;
    }
    auto parsed = ParseFlopsConvention(convention);
    ASSERT_TRUE(parsed) << convention;
    input.convention = *parsed;
    FlopsEstimate estimate = ModelFlops(ShapeFrom(config), input);
    EXPECT_NEAR(estimate.per_token / expected, 1, 1e-9)
        << model << " " << input.seq_length << " " << convention << " " << input.mtp_depths;
    EXPECT_EQ(estimate.convention, convention) << model;
    EXPECT_NEAR(Sum(estimate) / estimate.per_token, 1, 1e-12) << model;
  }
  EXPECT_GT(rows, 150);
}

TEST(Flops, OfLoraLeaveOutTheGradientsOfFrozenWeights) {
  if (testing::SharedData().empty()) GTEST_SKIP() << "no shared data";
  Adapter adapter{.rank = 16,
                  .modules = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                              "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}};
  const std::pair<const char*, double> factors[] = {{"meta-llama--Llama-3.1-8B", 0.66841},
                                                    {"Qwen--Qwen2.5-7B", 0.66843},
                                                    {"meta-llama--Llama-3.3-70B-Instruct", 0.66765},
                                                    {"Qwen--Qwen2.5-32B-Instruct", 0.66803}};
  for (const auto& [model, factor] : factors) {
    double full = FlopsOf(model, {.seq_length = 4096});
    double lora = FlopsOf(model, {.seq_length = 4096, .adapter = adapter});
    EXPECT_NEAR(lora / full, factor, 1e-5) << model;
  }
}

TEST(Flops, OfGptOssWereRecordedByTwoFormulas) {
  if (testing::SharedData().empty()) GTEST_SKIP() << "no shared data";
  FlopsInput recorded{.seq_length = 4096, .convention = FlopsConvention::kRecorded};
  double today = FlopsOf("openai--gpt-oss-120b", {.seq_length = 4096});
  recorded.gpu = "GB200";
  EXPECT_EQ(FlopsOf("openai--gpt-oss-120b", recorded), today);
  recorded.gpu = "H100-SXM";
  EXPECT_LT(FlopsOf("openai--gpt-oss-120b", recorded), 0.94 * today);
}

TEST(Flops, OfAFamilyWithoutAFormulaAreCountedAndSaidToBeOurOwn) {
  if (testing::SharedData().empty()) GTEST_SKIP() << "no shared data";
  for (const char* model : {"XiaomiMiMo--MiMo-V2.6-Pro-RL", "XiaomiMiMo--MiMo-V2.6-Flash-RL",
                            "moonshotai--Kimi-Linear-48B-A3B-Instruct", "poolside--Laguna-XS-2.1",
                            "zai-org--GLM-5.3-Flash", "google--gemma-2-9b", "google--gemma-3-4b-pt",
                            "microsoft--Phi-4-mini-instruct", "mistralai--Mixtral-8x7B-v0.1",
                            "tencent--HunyuanImage-3.0", "Qwen--Qwen-Image-2.1"}) {
    ModelShape shape = ShapeFrom(ReadConfig(model));
    FlopsInput input{.seq_length = 4096, .convention = FlopsConvention::kRecorded};
    FlopsEstimate estimate = ModelFlops(shape, input);
    EXPECT_EQ(estimate.convention, "own") << model;
    // Six for each parameter that a token is multiplied by, and something for attention.
    double active = static_cast<double>(ActiveParameters(shape));
    EXPECT_GT(estimate.per_token, 6 * 0.7 * active) << model;
    EXPECT_LT(estimate.per_token, 6 * 1.6 * active) << model;
    EXPECT_NEAR(Sum(estimate) / estimate.per_token, 1, 1e-12) << model;
  }
}

// By hand: hidden 64, 2 layers, 4 heads of 16, 2 KV heads, feed-forward 128, vocabulary 100; S
// = 32.
TEST(Flops, ExplainThemselvesTermByTerm) {
  ModelShape shape = ShapeFrom(json{{"model_type", "llama"},
                                    {"hidden_size", 64},
                                    {"num_hidden_layers", 2},
                                    {"num_attention_heads", 4},
                                    {"num_key_value_heads", 2},
                                    {"intermediate_size", 128},
                                    {"vocab_size", 100}});
  FlopsEstimate estimate = ModelFlops(shape, {.seq_length = 32});
  double projections = 6 * 2 * (2 * 64 * 64 + 2 * 64 * 32);
  double pairs = 6 * 2 * 64 * 32;
  double mlp = 6 * 2 * 3 * 64 * 128;
  double head = 6 * 100 * 64;
  EXPECT_EQ(estimate.per_token, projections + pairs + mlp + head);
  std::map<std::string, Term> terms;
  for (const Term& term : estimate.terms) terms[term.name] = term;
  EXPECT_EQ(terms["attention projections"].value, projections);
  EXPECT_EQ(terms["attention pairs"].value, pairs);
  EXPECT_EQ(terms["attention pairs"].formula, "6 · 2 · 16 keys · 4 · (16 + 16)");
  EXPECT_EQ(terms["feed-forward"].value, mlp);
  EXPECT_EQ(terms["output projection"].value, head);
  EXPECT_EQ(terms["output projection"].formula, "6 · 64 · 100");
}

TEST(Flops, ConventionIsOneOfTwoWords) {
  EXPECT_EQ(ParseFlopsConvention("current"), FlopsConvention::kCurrent);
  EXPECT_EQ(ParseFlopsConvention("recorded"), FlopsConvention::kRecorded);
  EXPECT_FALSE(ParseFlopsConvention("Recorded "));
  EXPECT_FALSE(ParseFlopsConvention(""));
}

}  // namespace
}  // namespace am::plan

#include "launcher/model/config.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace am::model {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

ModelConfig Parse(const json& file) {
  auto config = ParseModelConfig(file);
  EXPECT_TRUE(config.ok()) << config.status();
  return *config;
}

TEST(ModelConfig, ReadsNumbersAndFallsBackAsTransformersDoes) {
  ModelConfig config = Parse({{"architectures", {"LlamaForCausalLM"}},
                              {"model_type", "llama"},
                              {"hidden_size", 64},
                              {"num_attention_heads", 8}});
  EXPECT_EQ(config.num_key_value_heads, 8);
  EXPECT_EQ(WhyNotTrainable(config), "");
  EXPECT_EQ(Parse({{"text_config", {{"num_attention_heads", 4}}}}).num_attention_heads, 4);
  EXPECT_EQ(Parse({{"n_routed_experts", 64}}).num_experts, 64);
}

TEST(ModelConfig, SaysWhyTheEngineCannotTrainIt) {
  EXPECT_EQ(WhyNotTrainable(Parse({{"architectures", {"Phi3ForCausalLM"}}})),
            "architecture Phi3ForCausalLM is not trainable yet; trainable are LlamaForCausalLM, "
            "MistralForCausalLM, Qwen2ForCausalLM");
  EXPECT_NE(WhyNotTrainable(Parse(json::object())), "");
  json mistral = {{"architectures", {"MistralForCausalLM"}},
                  {"model_type", "mistral"},
                  {"sliding_window", 4096}};
  EXPECT_NE(WhyNotTrainable(Parse(mistral)), "");
  mistral["sliding_window"] = nullptr;
  EXPECT_EQ(WhyNotTrainable(Parse(mistral)), "");
  json qwen = {{"architectures", {"Qwen2ForCausalLM"}},
               {"model_type", "qwen2"},
               {"sliding_window", 4096},
               {"use_sliding_window", false}};
  EXPECT_EQ(WhyNotTrainable(Parse(qwen)), "");
}

class ModelDirectory : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) /
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }
  void Write(const std::string& name, const std::string& text) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  fs::path root_;
};

TEST_F(ModelDirectory, LaysOverridesOverTheFile) {
  Write("config.json", R"({"num_hidden_layers": 30, "rope_scaling": {"factor": 2}})");
  auto config = ReadModelConfig(root_, {{"num_hidden_layers", 2}});
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->num_hidden_layers, 2);
}

TEST_F(ModelDirectory, NamesWhatIsMissingOrBroken) {
  EXPECT_EQ(ReadModelConfig(root_).status().message(),
            root_.string() + " holds no config.json; it must be a Hugging Face model directory");
  Write("config.json", "{\"hidden_size\": 6");
  EXPECT_EQ(ReadModelConfig(root_).status().message(),
            (root_ / "config.json").string() + ": is no JSON; is the file complete?");
}

TEST_F(ModelDirectory, FindsTheSnapshotOfMainInTheCache) {
  Write("models--org--m/refs/main", "abc123");
  Write("models--org--m/snapshots/abc123/config.json", "{}");
  Write("models--org--m/snapshots/def456/config.json", "{}");
  auto found = FindHubDirectory(HubKind::kModel, "org/m", root_);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, (root_ / "models--org--m/snapshots/abc123").string());
  EXPECT_EQ(FindHubDirectory(HubKind::kDataset, "org/m", root_).status().message(),
            "org/m is neither a local path nor in the cache " + root_.string());
}

TEST(HuggingFaceCache, FollowsTheVariablesOfTheHub) {
  auto with = [](std::string name, std::string value) {
    return [name, value](const std::string& asked) -> std::optional<std::string> {
      if (asked == name) return value;
      if (asked == "HOME") return "/u";
      return std::nullopt;
    };
  };
  EXPECT_EQ(HuggingFaceCache(with("HF_HUB_CACHE", "/c")), "/c");
  EXPECT_EQ(HuggingFaceCache(with("HF_HOME", "/h")), "/h/hub");
  EXPECT_EQ(HuggingFaceCache(with("", "")), "/u/.cache/huggingface/hub");
}

}  // namespace
}  // namespace am::model

#include "launcher/model/known.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "launcher/model/shape.h"

namespace am::model {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

fs::path Source() {
  const char* directory = std::getenv("AMCTL_SOURCE_DIR");
  return directory ? directory : ".";
}

fs::path SharedModels() {
  const char* given = std::getenv("AMCTL_TEST_DATA");
  return (given ? fs::path(given) : Source() / ".." / "shared") / "models";
}

ModelShape KnownShape(const std::string& name) {
  const json* config = KnownConfig(name);
  EXPECT_NE(config, nullptr) << name;
  if (!config) return {};
  absl::StatusOr<ModelShape> shape = ShapeOf(*config);
  EXPECT_TRUE(shape.ok()) << name << ": " << shape.status();
  return shape.ok() ? *shape : ModelShape();
}

int64_t EmbeddingNumbers(const ModelShape& shape) {
  int64_t sum = 0;
  for (const Weight& weight : shape.embedding) {
    if (weight.role == Role::kEmbedding) sum += weight.Numbers();
  }
  return sum;
}

int64_t HeadNumbers(const ModelShape& shape) {
  int64_t sum = 0;
  for (const Weight& weight : shape.head) {
    if (weight.role == Role::kHead) sum += weight.Numbers();
  }
  return sum;
}

// "3.353B all": the number as printed, to its last digit.
void ExpectPrinted(double number, const std::string& printed, const std::string& what) {
  size_t digits = printed.find('B') - printed.find('.') - 1;
  double unit = std::pow(10.0, -static_cast<double>(digits));
  EXPECT_NEAR(number / 1e9, std::stod(printed), unit / 2 * 1.0001) << what;
}

struct Row {
  std::string model, total, active;
};

std::vector<std::string> Cells(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> cells;
  for (std::string cell; std::getline(stream, cell, '\t');) cells.push_back(cell);
  return cells;
}

// By the names of the first line: the shared table has more columns than ours.
std::vector<Row> ReadRows(const fs::path& path) {
  std::ifstream file(path);
  std::vector<Row> rows;
  std::string line;
  std::getline(file, line);
  std::vector<std::string> names = Cells(line);
  while (std::getline(file, line)) {
    std::vector<std::string> cells = Cells(line);
    auto cell = [&](const char* name) {
      size_t at = static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
      return at < cells.size() ? cells[at] : "";
    };
    rows.push_back({cell("model"), cell("total_parameters"), cell("active_parameters")});
  }
  return rows;
}

TEST(KnownModels, HaveThePublishedNumberOfParameters) {
  std::vector<Row> rows = ReadRows(Source() / "tests/launcher/model/parameters.tsv");
  ASSERT_EQ(rows.size(), 55u);
  for (const Row& row : rows) {
    ModelShape shape = KnownShape(row.model);
    if (row.total.find('B') != std::string::npos) {
      ExpectPrinted(static_cast<double>(Parameters(shape)), row.total, row.model);
    } else {
      EXPECT_EQ(std::to_string(Parameters(shape)), row.total) << row.model;
    }
    double active = static_cast<double>(ActiveParameters(shape));
    double embedding = static_cast<double>(EmbeddingNumbers(shape));
    double head = static_cast<double>(HeadNumbers(shape));
    if (row.active == "= total") {
      EXPECT_EQ(ActiveParameters(shape), Parameters(shape)) << row.model;
      continue;
    }
    std::istringstream figures(row.active);
    for (std::string figure; std::getline(figures, figure, '/');) {
      figure.erase(0, figure.find_first_not_of(' '));
      double counted = active;
      if (figure.find("without the input") != std::string::npos) counted -= embedding;
      if (figure.find("without both") != std::string::npos) counted -= embedding + head;
      ExpectPrinted(counted, figure, row.model + ": " + figure);
    }
  }
}

// Three cells of the shared table are cut to whole billions; Qwen-Image's is that of its blocks
// alone.
TEST(KnownModels, EqualTheSharedTable) {
  std::vector<Row> rows = ReadRows(SharedModels() / "parameters.tsv");
  if (rows.empty()) GTEST_SKIP() << "AMCTL_TEST_DATA/models/parameters.tsv is absent";
  EXPECT_EQ(rows.size(), 55u);
  for (Row& row : rows) {
    row.model.replace(row.model.find("--"), 2, "/");
    ModelShape shape = KnownShape(row.model);
    if (row.total.size() > 3) {
      EXPECT_EQ(std::to_string(Parameters(shape)), row.total) << row.model;
      continue;
    }
    int64_t blocks = 0;
    for (int kind : shape.layers) blocks += Numbers(shape.kinds[static_cast<size_t>(kind)]);
    int64_t counted = shape.family == "qwen_image" ? blocks : Parameters(shape);
    EXPECT_EQ(std::to_string(counted / 1'000'000'000), row.total) << row.model;
  }
}

TEST(KnownModels, AreShapedAsTheirConfigurationFilesSay) {
  if (!fs::is_directory(SharedModels())) GTEST_SKIP() << "AMCTL_TEST_DATA/models is absent";
  int compared = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(SharedModels())) {
    std::ifstream file(entry.path() / "config.json");
    if (!file) continue;
    std::string name = entry.path().filename();
    name.replace(name.find("--"), 2, "/");
    absl::StatusOr<ModelShape> shape = ShapeOf(json::parse(file));
    ASSERT_TRUE(shape.ok()) << name << ": " << shape.status();
    ModelShape known = KnownShape(name);
    EXPECT_TRUE(shape->kinds == known.kinds && shape->layers == known.layers) << name;
    EXPECT_TRUE(shape->embedding == known.embedding && shape->head == known.head) << name;
    EXPECT_TRUE(shape->towers == known.towers && shape->mtp == known.mtp) << name;
    EXPECT_EQ(shape->mtp_depths, known.mtp_depths) << name;
    ++compared;
  }
  EXPECT_EQ(compared, 55);
}

TEST(KnownModels, HavePredictionBlocksOfThePublishedSize) {
  auto billions = [](const char* name) {
    ModelShape shape = KnownShape(name);
    EXPECT_TRUE(shape.mtp.has_value()) << name;
    return shape.mtp ? static_cast<double>(Numbers(*shape.mtp)) / 1e9 : 0;
  };
  EXPECT_NEAR(billions("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16"), 2.942, 0.0005);
  EXPECT_NEAR(billions("nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16"), 11.216, 0.0005);
  EXPECT_NEAR(billions("nvidia/NVIDIA-Nemotron-3.5-Lightning-30B-A3B-BF16"), 1.335, 0.0005);
  EXPECT_NEAR(billions("deepseek-ai/DeepSeek-V3"), 11.5, 0.15);
  EXPECT_NEAR(billions("Qwen/Qwen3.8-27B"), 0.42, 0.01);
  EXPECT_NEAR(billions("XiaomiMiMo/MiMo-V2.6-Flash-RL"), 0.33, 0.005);
  EXPECT_NEAR(billions("zai-org/GLM-5.3-Flash"), 7.4, 0.05);
  // As stored, with copies of both embeddings: 3.6.
  EXPECT_NEAR(billions("zai-org/GLM-4.5-Air") + 2 * 151552 * 4096 / 1e9, 3.6, 0.05);
}

TEST(KnownAliases, NameKnownModelsOnceAndAreShapedLikeThem) {
  std::vector<std::string> models = KnownModels();
  EXPECT_EQ(models.size(), 55u);
  std::set<std::string_view> seen;
  for (const Alias& alias : KnownAliases()) {
    EXPECT_TRUE(seen.insert(alias.name).second) << alias.name << " is there twice";
    EXPECT_EQ(std::count(models.begin(), models.end(), alias.name), 0) << alias.name;
    EXPECT_EQ(std::count(models.begin(), models.end(), alias.of), 1) << alias.of;
    EXPECT_GT(Parameters(KnownShape(std::string(alias.name))), 0);
  }
  EXPECT_EQ(Parameters(KnownShape("meta-llama/Meta-Llama-3.1-8B-Instruct")), 8'030'261'248);
  EXPECT_EQ(Parameters(KnownShape("mistralai/Mistral-7B-v0.1")), 7'241'732'096);
  EXPECT_EQ(KnownShape("mistralai/Mistral-7B-v0.1").layer(0).attention->window, 4096);
  EXPECT_EQ((*KnownConfig("Qwen/Qwen2.5-7B-Instruct"))["max_position_embeddings"], 32768);
}

TEST(KnownConfig, IsEmptyForOtherNames) {
  EXPECT_EQ(KnownConfig("org/unknown"), nullptr);
  EXPECT_EQ(KnownConfig(""), nullptr);
}

class FindingAModel : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) /
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
    fs::create_directories(root_ / "hub");
  }
  void TearDown() override { fs::remove_all(root_); }
  void Write(const std::string& name, const std::string& text) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  absl::StatusOr<FoundConfig> Find(const std::string& name, const json& overrides = {}) {
    return FindModelConfig(name, overrides,
                           [this](const std::string& variable) -> std::optional<std::string> {
                             if (variable == "HF_HUB_CACHE") return (root_ / "hub").string();
                             return std::nullopt;
                           });
  }
  fs::path root_;
};

TEST_F(FindingAModel, TriesTheDirectoryThenTheCacheThenTheFacts) {
  Write("model/config.json", R"({"model_type": "llama", "hidden_size": 64})");
  auto local = Find((root_ / "model").string());
  ASSERT_TRUE(local.ok()) << local.status();
  EXPECT_EQ(local->source, (root_ / "model/config.json").string());
  EXPECT_EQ(local->config.hidden_size, 64);

  auto facts = Find("meta-llama/Llama-3.1-8B");
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->source, "the known facts of meta-llama/Llama-3.1-8B");
  EXPECT_TRUE(facts->from_facts);
  EXPECT_EQ(Find("google/gemma-2-9b-it")->source,
            "the known facts of google/gemma-2-9b, which is of equal shape");
  EXPECT_EQ(facts->config.num_hidden_layers, 32);

  const std::string snapshot = "hub/models--meta-llama--Llama-3.1-8B/snapshots/abc/";
  Write(snapshot + "tokenizer.json", "{}");
  EXPECT_TRUE(Find("meta-llama/Llama-3.1-8B")->from_facts);
  Write(snapshot + "config.json", R"({"num_hidden_layers": 3})");
  auto cached = Find("meta-llama/Llama-3.1-8B");
  ASSERT_TRUE(cached.ok()) << cached.status();
  EXPECT_FALSE(cached->from_facts);
  EXPECT_EQ(cached->config.num_hidden_layers, 3);
}

TEST_F(FindingAModel, LaysOverridesOverTheTextPart) {
  auto found = Find("deepseek-ai/DeepSeek-V3", {{"num_hidden_layers", 4}});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(ShapeOf(found->config.json)->layers.size(), 4u);
  found = Find("Qwen/Qwen3.8-27B", {{"num_hidden_layers", 8}});
  EXPECT_EQ(ShapeOf(found->config.json)->layers.size(), 8u);
  EXPECT_EQ(found->config.num_hidden_layers, 8);
  found = Find("Qwen/Qwen3.8-27B", {{"text_config", {{"num_hidden_layers", 6}}}});
  EXPECT_EQ(ShapeOf(found->config.json)->layers.size(), 6u);
  // The known facts themselves stay as they are.
  EXPECT_EQ((*KnownConfig("deepseek-ai/DeepSeek-V3"))["num_hidden_layers"], 61);
}

TEST_F(FindingAModel, SaysWhatCannotBeKnown) {
  absl::Status status = Find("org/other").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(),
            "org/other is no local directory, not in the cache " + (root_ / "hub").string() +
                " and not among the known models, so its layers, parameters, memory and step time "
                "are not known; download its config.json or name a directory that has it");
}

// Any layer count that a recipe cuts a known model to.
TEST(KnownModels, CanBeCutToFewLayers) {
  for (const std::string& name : KnownModels()) {
    json config = *KnownConfig(name);
    std::string part = TextPartKey(config);
    json& text = part.empty() ? config : config[part];
    std::string key = text.contains("transformer") ? "num_layers" : "num_hidden_layers";
    (text.contains("transformer") ? text["transformer"] : text)[key] = 2;
    absl::StatusOr<ModelShape> shape = ShapeOf(config);
    ASSERT_TRUE(shape.ok()) << name << ": " << shape.status();
    EXPECT_EQ(shape->layers.size(), 2u) << name;
  }
}

}  // namespace
}  // namespace am::model

#include "launcher/cli/check_paths.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "launcher/recipe/load.h"

namespace am::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class CheckPathsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) /
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "model");
    fs::create_directories(folder_ / "hub/models--org--m/snapshots/1");
    fs::create_directories(folder_ / "hub/datasets--org--d/snapshots/1");
    std::ofstream(folder_ / "file") << "x";
    std::ofstream(folder_ / "tokens_1.bin") << "x";
  }
  void TearDown() override { fs::remove_all(folder_); }

  // `~` stands for the folder of the test.
  std::string Check(std::string text) {
    for (size_t at = text.find('~'); at != std::string::npos; at = text.find('~', at)) {
      text.replace(at, 1, folder_.string());
    }
    recipe::LoadResult loaded = recipe::LoadRecipe({.path = "r.yaml", .text = text});
    EXPECT_TRUE(loaded.recipe) << recipe::RenderText(loaded.diagnostics) << text;
    if (!loaded.recipe) return "";
    std::string hub = (folder_ / "hub").string();
    std::string said = recipe::RenderText(
        CheckPaths(*loaded.recipe, [&](const std::string& name) -> std::optional<std::string> {
          if (name == "HF_HUB_CACHE") return hub;
          return std::nullopt;
        }));
    for (size_t at = said.find(folder_); at != std::string::npos; at = said.find(folder_)) {
      said.replace(at, folder_.string().size(), "~");
    }
    return said;
  }

  fs::path folder_;
};

constexpr char kFinetune[] = "recipe: TrainFinetuneRecipeForNextTokenPrediction\n";
constexpr char kFound[] =
    "model: {pretrained_model_name_or_path: ~/model}\n"
    "dataset: {_target_: make_squad_dataset, dataset_name: ~/file}\n";

TEST_F(CheckPathsTest, WhatIsThereIsFine) {
  EXPECT_EQ(Check(std::string(kFinetune) + kFound + "checkpoint: {checkpoint_dir: ~/new/deep}\n"),
            "");
  EXPECT_EQ(Check(std::string(kFinetune) +
                  "model: {pretrained_model_name_or_path: org/m}\n"
                  "dataset: {_target_: make_squad_dataset, dataset_name: org/d}\n"),
            "")
      << "in the Hugging Face cache";
}

TEST_F(CheckPathsTest, WhatIsNotThereIsAnErrorAtItsKey) {
  EXPECT_EQ(Check(std::string(kFinetune) +
                  "model: {pretrained_model_name_or_path: ~/file}\n"
                  "dataset: {_target_: make_squad_dataset, dataset_name: ~/gone.jsonl}\n"
                  "peft: {target_modules: x, adapter_path: ~/adapter}\n"),
            "r.yaml:2:40: error: model.pretrained_model_name_or_path: ~/file is a file, not a "
            "model directory; name the directory that holds config.json\n"
            "r.yaml:3:55: error: dataset.dataset_name: no such file or directory: ~/gone.jsonl; "
            "use --dataset.dataset_name=/path/to/data\n"
            "r.yaml:4:41: error: peft.adapter_path: no such file or directory: ~/adapter\n");
  EXPECT_THAT(Check(std::string(kFinetune) +
                    "model: {pretrained_model_name_or_path: org/other}\n"
                    "dataset: {_target_: make_squad_dataset, dataset_name: ~/file}\n"),
              HasSubstr("org/other is neither a local path nor in the cache"));
}

TEST_F(CheckPathsTest, OutputDirectoriesMustBeWritable) {
  EXPECT_EQ(Check(std::string(kFinetune) + kFound + "checkpoint: {checkpoint_dir: ~/file/new}\n"),
            "r.yaml:4:30: error: checkpoint.checkpoint_dir: ~/file is a file, so ~/file/new cannot "
            "be made; choose another directory\n");
  if (geteuid() == 0) return;  // may write anywhere
  fs::permissions(folder_ / "model", fs::perms::owner_read);
  EXPECT_THAT(Check(std::string(kFinetune) + kFound + "checkpoint: {checkpoint_dir: ~/model/c}\n"),
              HasSubstr("cannot be written to"));
}

TEST_F(CheckPathsTest, KnowsTheKeysOfOtherKindsOfRecipes) {
  EXPECT_EQ(Check("recipe: TrainEagle3Recipe\n"
                  "recipe_args: {target_model_name_or_path: org/m, train_data_path: ~/gone,\n"
                  "              output_dir: ~/out}\n"),
            "r.yaml:2:66: error: recipe_args.train_data_path: no such file or directory: ~/gone; "
            "use --recipe_args.train_data_path=/path/to/data\n");
  EXPECT_EQ(Check("recipe: TrainBiEncoderRecipe\n"
                  "dataset: {_target_: RetrievalDatasetConfig, data_dir_list: [hf://org/d/part, "
                  "~/gone, {path: ~/file}]}\n"),
            "r.yaml:2:60: error: dataset.data_dir_list.1: no such file or directory: ~/gone; use "
            "--dataset.data_dir_list.1=/path/to/data\n");
  EXPECT_EQ(Check(std::string(kFinetune) +
                  "model: {pretrained_model_name_or_path: ~/model}\n"
                  "dataset: {_target_: NanogptDataset, file_pattern: '~/tokens_*.bin'}\n"
                  "step_scheduler: {max_steps: 5}\n"),
            "");
}

}  // namespace
}  // namespace am::cli

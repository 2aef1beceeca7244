// `amctl validate` and `amctl plan`, from words to exit status.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "common/exit_status.h"
#include "launcher/cli/command.h"

namespace am::cli {
namespace {

using ::testing::HasSubstr;

class CheckCommands : public ::testing::Test {
 protected:
  void SetUp() override {
    path_ = ::testing::TempDir() + "/" +
            ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".yaml";
    std::ofstream(path_) << "recipe: TrainFinetuneRecipeForNextTokenPrediction\n"
                            "model: {pretrained_model_name_or_path: org/m}\n"
                            "dataset: {_target_: make_squad_dataset, dataset_name: org/d}\n";
  }
  void TearDown() override { std::filesystem::remove(path_); }

  int Run(const Command& command, std::vector<std::string> more) {
    more.insert(more.begin(), path_);
    std::istringstream in;
    out_.str("");
    err_.str("");
    CommandContext context{more, in, out_, err_};
    return command.run(context);
  }

  std::string path_;
  std::ostringstream out_, err_;
};

TEST_F(CheckCommands, ValidateEndsWithNoughtWhereThereAreOnlyWarnings) {
  EXPECT_EQ(Run(kValidateCommand, {}), kExitDone);
  EXPECT_EQ(out_.str(), path_ + ": valid\n");
  EXPECT_EQ(Run(kValidateCommand, {"--wandb.project=p"}), kExitDone);
  EXPECT_EQ(out_.str(), path_ + ": valid, 1 warning\n");
  EXPECT_EQ(Run(kValidateCommand, {"--wandb.project=p", "--strict"}), kExitUsage);
  EXPECT_EQ(Run(kValidateCommand, {"--peft.dim=0"}), kExitUsage);
  EXPECT_THAT(err_.str(), HasSubstr("--peft.dim=0: error: peft.dim: expected"));
}

TEST_F(CheckCommands, ValidateKnowsMachinesOnlyWhereTheyAreNamed) {
  EXPECT_EQ(Run(kValidateCommand, {"--distributed.tp_size=3"}), kExitDone);
  EXPECT_EQ(Run(kValidateCommand, {"--distributed.tp_size=3", "--cluster=dgx-h100"}), kExitUsage);
  EXPECT_EQ(Run(kValidateCommand, {"--cluster=moon"}), kExitUsage);
}

TEST_F(CheckCommands, ValidateLooksForFilesWhenItIsTold) {
  EXPECT_EQ(Run(kValidateCommand, {"--check-paths"}), kExitUsage);
  EXPECT_THAT(err_.str(), HasSubstr("org/m is neither a local path nor in the cache"));
  EXPECT_THAT(err_.str(), HasSubstr("org/d is neither a local path nor in the cache"));
}

TEST_F(CheckCommands, JsonIsAllThatStandardOutputHolds) {
  EXPECT_EQ(Run(kValidateCommand, {"--json", "--seed=-1"}), kExitUsage);
  nlohmann::json json = nlohmann::json::parse(out_.str());
  ASSERT_EQ(json["diagnostics"].size(), 1u);
  EXPECT_EQ(json["diagnostics"][0]["key"], "seed");
  EXPECT_EQ(Run(kPlanCommand, {"--json", "--cluster=dgx-h100", "--nodes=2"}), kExitDone);
  json = nlohmann::json::parse(out_.str());
  EXPECT_EQ(json["world_size"], 16);
  EXPECT_EQ(Run(kPlanCommand, {"--json", "--cluster=dgx-h100", "--distributed.tp_size=3"}),
            kExitUsage);
  EXPECT_EQ(nlohmann::json::parse(out_.str())["diagnostics"].size(), 2u);
}

TEST_F(CheckCommands, WhatIsUnderstoodAndNotTrainableIsAWarningAtItsKey) {
  struct {
    std::vector<std::string> words;
    const char* key;
  } const kCases[] = {
      {{"--model.pretrained_model_name_or_path=Qwen/Qwen3-8B"},
       "model.pretrained_model_name_or_path: Qwen/Qwen3-8B: architecture Qwen3ForCausalLM"},
      {{"--distributed.tp_size=2"}, "distributed.tp_size: 2"},
      {{"--fp8.enabled=true"}, "fp8:"},
      {{"--peft.use_dora=true", "--peft.target_modules=*_proj"}, "peft.use_dora: true"},
      {{"--packed_sequence.packed_sequence_size=1024"},
       "packed_sequence.packed_sequence_size: 1024"},
      {{"--dataset._target_=ChatDataset"}, "dataset._target_: ChatDataset"},
      {{"--optimizer._target_=dion.Muon"}, "optimizer._target_: dion.Muon"},
      {{"--neftune=5"}, "neftune:"},
      {{"--recipe=FinetuneRecipeForVLM"}, "recipe: FinetuneRecipeForVLM"},
      {{"--model.backend.te_fp8.recipe=block"}, "model.backend.te_fp8:"},
      {{"--checkpoint.publish.to=hf://org/m"}, "checkpoint.publish:"},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(Run(kValidateCommand, c.words), kExitDone) << err_.str();
    EXPECT_THAT(err_.str(), HasSubstr(std::string("warning: ") + c.key));
    EXPECT_THAT(err_.str(), HasSubstr("not trainable yet"));
  }
}

TEST_F(CheckCommands, PrintShowsWhereEachValueComesFrom) {
  EXPECT_EQ(Run(kPrintCommand, {"--optimizer.lr=1e-4"}), kExitDone);
  EXPECT_THAT(out_.str(), HasSubstr("  # --optimizer.lr=1e-4\n"));
  EXPECT_THAT(out_.str(), HasSubstr("  # " + path_ + ":1\n"));
  EXPECT_EQ(err_.str(), "");
  EXPECT_EQ(Run(kPrintCommand, {"--json"}), kExitDone);
  EXPECT_EQ(nlohmann::json::parse(out_.str())["origins"]["dataset.dataset_name"]["line"], 3);
  EXPECT_EQ(Run(kPrintCommand, {"--seed=-1"}), kExitUsage);
  EXPECT_EQ(out_.str(), "");
}

class WordCommands : public ::testing::Test {
 protected:
  int Run(const Command& command, std::vector<std::string> args) {
    std::istringstream in;
    out_.str("");
    err_.str("");
    CommandContext context{std::move(args), in, out_, err_};
    return command.run(context);
  }
  std::ostringstream out_, err_;
};

TEST_F(WordCommands, ExplainSaysWhatAKeyIsAndWhatWasMeant) {
  EXPECT_EQ(Run(kExplainCommand, {"optimizer.lr"}), kExitDone);
  EXPECT_THAT(out_.str(), HasSubstr("learning rate"));
  EXPECT_EQ(Run(kExplainCommand, {"optimizer.lr", "--json"}), kExitDone);
  EXPECT_EQ(nlohmann::json::parse(out_.str())["key"], "optimizer.lr");
  EXPECT_EQ(Run(kExplainCommand, {}), kExitDone);
  EXPECT_THAT(out_.str(), HasSubstr("step_scheduler"));
  EXPECT_EQ(Run(kExplainCommand, {"optimizer.rl"}), kExitUsage);
  EXPECT_EQ(err_.str(), "amctl explain: unknown key optimizer.rl; did you mean optimizer.lr?\n");
  EXPECT_EQ(Run(kExplainCommand, {"lr"}), kExitUsage);
  EXPECT_EQ(err_.str(), "amctl explain: unknown key lr; did you mean optimizer.lr?\n");
  EXPECT_EQ(Run(kExplainCommand, {"a", "b"}), kExitUsage);
}

TEST_F(WordCommands, SchemaPrintsJson) {
  EXPECT_EQ(Run(kSchemaCommand, {}), kExitDone);
  EXPECT_EQ(nlohmann::json::parse(out_.str())["$schema"],
            "https://json-schema.org/draft/2020-12/schema");
  EXPECT_EQ(Run(kSchemaCommand, {"please"}), kExitUsage);
}

}  // namespace
}  // namespace am::cli

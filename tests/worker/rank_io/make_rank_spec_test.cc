#include "worker/rank_io/make_rank_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace am {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr char kRecipe[] = R"(
recipe: TrainFinetuneRecipeForNextTokenPrediction
step_scheduler: {grad_acc_steps: 4, ckpt_every_steps: 10, val_every_steps: 5, num_epochs: 1}
dist_env: {backend: nccl, timeout_minutes: 2}
distributed: {strategy: fsdp2, dp_size: null, tp_size: 1}
rng: {_target_: StatefulRNG, seed: 1111, ranked: true}
model: {pretrained_model_name_or_path: model, torch_dtype: bf16}
peft: {_target_: nemo_automodel.components._peft.lora.PeftConfig, target_modules: "*.proj", dim: 4, use_triton: true}
checkpoint: {checkpoint_dir: out/, save_consolidated: true}
dataset: {_target_: make_squad_dataset, dataset_name: data, split: train}
validation_dataset: {_target_: make_squad_dataset, dataset_name: data, split: validation, limit_dataset_samples: 64}
dataloader: {batch_size: 2, shuffle: false}
validation_dataloader: {batch_size: 8}
loss_fn: {_target_: nemo_automodel.components.loss.chunked_ce.ChunkedCrossEntropy, chunk_len: 64}
optimizer: {_target_: torch.optim.AdamW, lr: 1.0e-5, betas: [0.9, 0.95], eps: 1e-8}
)";

// A model directory and a data set of nothing but names, in a folder of the test's own.
class MakeRankSpecTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) /
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
    Write("model/config.json", R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
      "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 128,
      "pretraining_tp": 1})");
    Write("model/model.safetensors", "");
    Write("data/train.jsonl", "");
  }
  void TearDown() override { fs::remove_all(root_); }

  void Write(const std::string& name, const std::string& text) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }

  RankSpecResult Make(const std::vector<std::string>& arguments = {}, int ranks = 2,
                      plan::Cluster cluster = {.name = "local"}) {
    auto overrides = recipe::ParseOverrides(arguments);
    EXPECT_TRUE(overrides.ok()) << overrides.status();
    recipe::LoadResult loaded =
        recipe::LoadRecipe({.path = "r.yaml", .text = kRecipe, .overrides = *overrides});
    EXPECT_TRUE(loaded.recipe) << recipe::RenderText(loaded.diagnostics);
    plan::PlanResult planned = plan::MakePlan(*loaded.recipe, cluster, {.ranks_per_node = ranks});
    EXPECT_TRUE(planned.plan) << recipe::RenderText(planned.diagnostics);
    return MakeRankSpec(
        *loaded.recipe, *planned.plan,
        {.job = "am-test",
         .attempt = 2,
         .working_directory = root_,
         .cores = 8,
         .environment = [this](const std::string& name) -> std::optional<std::string> {
           if (name == "HF_HUB_CACHE") return (root_ / "hub").string();
           return std::nullopt;
         }});
  }

  RankSpec Spec(const std::vector<std::string>& arguments = {}, int ranks = 2) {
    RankSpecResult result = Make(arguments, ranks);
    EXPECT_TRUE(result.spec) << recipe::RenderText(result.diagnostics);
    return result.spec.value_or(RankSpec());
  }

  std::string Refusal(const std::vector<std::string>& arguments) {
    RankSpecResult result = Make(arguments);
    EXPECT_FALSE(result.spec);
    std::string errors;
    for (const recipe::Diagnostic& d : result.diagnostics) {
      if (d.severity == recipe::Severity::kError)
        errors += d.key + ": " + d.message + "; " + d.hint;
    }
    return errors;
  }

  fs::path root_;
};

TEST_F(MakeRankSpecTest, ResolvesEveryKeyOfTheGuide) {
  RankSpec spec = Spec();
  EXPECT_EQ(spec.job, "am-test");
  EXPECT_EQ(spec.attempt, 2);
  EXPECT_EQ(spec.seed, 1111u);
  EXPECT_EQ(spec.batch.global_batch_size, 16);
  EXPECT_EQ(spec.batch.local_batch_size, 2);
  EXPECT_EQ(spec.batch.grad_acc_steps, 4);
  EXPECT_EQ(spec.layout.dp_shard, 2);
  EXPECT_EQ(spec.layout.ranks.size(), 2u);
  EXPECT_EQ(spec.dist.backend, "gloo");
  EXPECT_EQ(spec.dist.timeout_ms, 120'000);
  EXPECT_EQ(spec.dist.threads, 4);
  EXPECT_EQ(spec.model.path, (root_ / "model").string());
  EXPECT_EQ(spec.model.name, "model");
  EXPECT_EQ(spec.model.torch_dtype, "bfloat16");
  ASSERT_TRUE(spec.peft);
  EXPECT_EQ(spec.peft->target_modules, std::vector<std::string>{"*.proj"});
  EXPECT_EQ(spec.peft->dim, 4);
  EXPECT_EQ(spec.peft->alpha, 32);
  EXPECT_EQ(spec.dataset.path, (root_ / "data").string());
  EXPECT_EQ(spec.dataset.split, "train");
  EXPECT_FALSE(spec.loader.shuffle);
  ASSERT_EQ(spec.validation_datasets.size(), 1u);
  EXPECT_EQ(spec.validation_datasets[0].limit_samples, 64);
  EXPECT_EQ(spec.validation_loader.batch_size, 8);
  EXPECT_EQ(spec.schedule.num_epochs, 1);
  EXPECT_EQ(spec.schedule.ckpt_every_steps, 10);
  EXPECT_EQ(spec.loss.kind, "chunked_ce");
  EXPECT_EQ(spec.loss.chunk_len, 64);
  EXPECT_EQ(spec.optimizer.kind, "adamw");
  EXPECT_EQ(spec.optimizer.beta2, 0.95);
  EXPECT_EQ(spec.optimizer.weight_decay, 0.01);
  EXPECT_EQ(spec.max_grad_norm, 1.0);
  EXPECT_EQ(spec.checkpoint.dir, (root_ / "out").string());
  EXPECT_EQ(spec.checkpoint.save_consolidated, "every");
  EXPECT_THAT(spec.checkpoint.config_yaml, HasSubstr("chunk_len: 64"));
  EXPECT_EQ(spec.checkpoint.run_fingerprint["model"]["hidden_size"], 64);
  // What is written can be read: no field is left out or of the wrong type.
  EXPECT_EQ(ToJson(RankSpecFromJson(ToJson(spec))), ToJson(spec));
}

TEST_F(MakeRankSpecTest, WarnsWhereAnotherPathIsTakenOnACpu) {
  RankSpecResult result = Make();
  std::string text = recipe::RenderText(result.diagnostics, {.least = recipe::Severity::kInfo});
  EXPECT_THAT(
      text,
      HasSubstr("warning: dist_env.backend: nccl needs GPUs and there are none; gloo is used"));
  EXPECT_THAT(text, HasSubstr("warning: peft.use_triton:"));
  EXPECT_THAT(text, HasSubstr("info: rng.ranked:"));
  RankSpecResult gpus = Make({}, 2, {.name = "g", .node = {.gpus = 2}});
  EXPECT_EQ(gpus.spec->dist.backend, "nccl");
  EXPECT_EQ(recipe::RenderText(gpus.diagnostics), "");
}

TEST_F(MakeRankSpecTest, HonoursNullsAndSwitches) {
  EXPECT_FALSE(Spec({"--clip_grad_norm.max_norm=null"}).max_grad_norm);
  EXPECT_FALSE(Spec({"--clip_grad_norm.max_norm=0"}).max_grad_norm);
  EXPECT_EQ(Spec({"--clip_grad_norm.max_norm=0.5"}).max_grad_norm, 0.5);
  EXPECT_FALSE(Spec({"--peft-"}).peft);
  EXPECT_EQ(Spec({"--seed=7"}).seed, 7u);
  EXPECT_EQ(Spec({"--rng-"}).seed, 42u);
  EXPECT_EQ(Spec({"--optimizer-"}).optimizer.lr, 1e-5);
  EXPECT_FALSE(Spec({"--step_scheduler.ckpt_every_steps=null"}).schedule.ckpt_every_steps);
  EXPECT_EQ(Spec({"--distributed.strategy=ddp"}).layout.dp_replicate, 2);
  EXPECT_EQ(Spec({"--distributed.strategy=ddp"}).layout.dp_shard, 1);
  EXPECT_EQ(Spec({"--model.num_hidden_layers=1"}).model.config_overrides["num_hidden_layers"], 1);
  EXPECT_EQ(Spec({"--lr_scheduler.lr_decay_style=linear"}).lr_scheduler->lr_decay_style, "linear");
  EXPECT_FALSE(Spec().lr_scheduler);
}

TEST_F(MakeRankSpecTest, KeepsTheFingerprintWhereOnlySpeedOrLengthChange) {
  nlohmann::json base = Spec().checkpoint.run_fingerprint;
  EXPECT_EQ(Spec({"--step_scheduler.num_epochs=9", "--optimizer.lr=1"}).checkpoint.run_fingerprint,
            base);
  // The same global batch from twice the ranks.
  EXPECT_EQ(Spec({"--step_scheduler.grad_acc_steps=2"}, 4).checkpoint.run_fingerprint, base);
  EXPECT_NE(Spec({"--peft-"}).checkpoint.run_fingerprint, base);
  EXPECT_NE(Spec({"--rng.seed=2"}).checkpoint.run_fingerprint, base);
  EXPECT_NE(Spec({"--step_scheduler.grad_acc_steps=2"}).checkpoint.run_fingerprint, base);
}

TEST_F(MakeRankSpecTest, FindsHubIdsInTheCache) {
  Write("hub/models--org--m/refs/main", "abc");
  Write("hub/models--org--m/snapshots/abc/config.json",
        R"({"architectures": ["Qwen2ForCausalLM"]})");
  Write("hub/models--org--m/snapshots/abc/model.safetensors", "");
  RankSpec spec = Spec({"--model.pretrained_model_name_or_path=org/m"});
  EXPECT_EQ(spec.model.path, (root_ / "hub/models--org--m/snapshots/abc").string());
  EXPECT_EQ(spec.model.name, "org/m");
}

TEST_F(MakeRankSpecTest, RefusesModelsBeforeAnythingStarts) {
  EXPECT_THAT(Refusal({"--model.pretrained_model_name_or_path=./nowhere"}),
              HasSubstr("no such directory: " + (root_ / "nowhere").string()));
  EXPECT_THAT(Refusal({"--model.pretrained_model_name_or_path=org/m"}),
              HasSubstr("org/m is neither a local path nor in the cache"));
  EXPECT_THAT(Refusal({"--model.pretrained_model_name_or_path=data/train.jsonl"}),
              HasSubstr("is a file, not a model directory"));
  EXPECT_THAT(Refusal({"--model.pretrained_model_name_or_path=data"}),
              HasSubstr("holds no config.json"));
  Write("phi/config.json", R"({"architectures": ["Phi3ForCausalLM"]})");
  EXPECT_THAT(Refusal({"--model.pretrained_model_name_or_path=phi"}),
              HasSubstr("architecture Phi3ForCausalLM is not trainable yet"));
  Write("pickled/config.json", R"({"architectures": ["LlamaForCausalLM"]})");
  Write("pickled/pytorch_model.bin", "");
  EXPECT_THAT(Refusal({"--model.pretrained_model_name_or_path=pickled"}),
              HasSubstr("pickles are never read"));
  Write(
      "fp8/config.json",
      R"({"architectures": ["LlamaForCausalLM"], "quantization_config": {"quant_method": "fp8"}})");
  EXPECT_THAT(Refusal({"--model.pretrained_model_name_or_path=fp8"}), HasSubstr("quantised"));
  EXPECT_THAT(Refusal({"--model.pretrainig_tp=1"}), HasSubstr("did you mean pretraining_tp?"))
      << "of fields that only the file has";
}

TEST_F(MakeRankSpecTest, RefusesDataThatIsNotThere) {
  EXPECT_THAT(Refusal({"--dataset.dataset_name=./nowhere.jsonl"}),
              HasSubstr("no such file or directory"));
  EXPECT_THAT(Refusal({"--dataset.dataset_name=rajpurkar/squad"}),
              HasSubstr("use --dataset.dataset_name=/path/to/data"));
  Write("hub/datasets--org--d/snapshots/abc/data.parquet", "");
  EXPECT_THAT(Refusal({"--dataset.dataset_name=org/d"}),
              HasSubstr("holds no .json or .jsonl file"));
}

}  // namespace
}  // namespace am

#include "controller/server/submit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/file.h"
#include "tests/support/temporary_folder.h"

namespace am::controller {
namespace {

namespace v1 = amctl::v1;
using testing::HasSubstr;

// A model of which the directory has no more than its config, and mock data: enough to be laid out.
class SubmitTest : public testing::Test {
 protected:
  SubmitTest() {
    EXPECT_TRUE(MakeDirectories(folder_ / "model", 0700).ok());
    EXPECT_TRUE(WriteFile(folder_ / "model/config.json", R"({
      "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
      "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
      "num_key_value_heads": 2, "vocab_size": 128, "max_position_embeddings": 256,
      "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": true,
      "torch_dtype": "float32"})",
                          0600)
                    .ok());
    request_.set_recipe_file("recipes/tiny.yaml");
    request_.set_working_directory(folder_.path());
    request_.set_recipe_yaml(R"(recipe: TrainFinetuneRecipeForNextTokenPrediction
step_scheduler: {global_batch_size: 8, local_batch_size: 2, max_steps: 6}
model:
  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_config
  config:
    pretrained_model_name_or_path: ${MODEL}
checkpoint: {checkpoint_dir: checkpoints}
dataset:
  _target_: nemo_automodel.components.datasets.llm.mock_iterable_dataset.MockIterableDataset
loss_fn: {_target_: nemo_automodel.components.loss.masked_ce.MaskedCrossEntropy}
optimizer: {_target_: torch.optim.Adam, lr: 1.0e-3}
restart: {max_restarts: 7, grace_s: 2.5}
)");
    (*request_.mutable_environment())["MODEL"] = folder_ / "model";
  }

  absl::StatusOr<Submission> Read() {
    return ReadSubmission(request_, "ada", plan::LocalCluster({.cores = 4}), 42);
  }

  TemporaryFolder folder_;
  v1::SubmitRequest request_;
};

TEST_F(SubmitTest, BecomesAnOrderWithAllThatWasAskedFor) {
  request_.set_ranks_per_node(2);
  request_.set_priority(5);
  request_.set_time_limit_ms(1500);
  request_.add_after("am-other");
  request_.set_client_token("t");
  request_.add_overrides("--step_scheduler.max_steps=9");
  absl::StatusOr<Submission> read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  const JobSpec& spec = read->order.spec;
  EXPECT_EQ(spec.name, "tiny");
  EXPECT_EQ(spec.user, "ada");
  EXPECT_EQ(spec.priority, 5);
  EXPECT_EQ(spec.world_size, 2);
  EXPECT_EQ(spec.demand, (Demand{.nodes = 1, .ranks_per_node = 2}));
  EXPECT_EQ(spec.after, std::vector<std::string>{"am-other"});
  EXPECT_EQ(spec.time_limit, std::chrono::milliseconds(1500));
  EXPECT_EQ(spec.restart.max_restarts, 7);
  EXPECT_EQ(spec.restart.grace, std::chrono::milliseconds(2500));
  EXPECT_EQ(spec.total_steps, 9);
  EXPECT_EQ(spec.submitted_unix_ns, 42);
  EXPECT_EQ(spec.checkpoint_dir, folder_ / "checkpoints") << "relative to the client's folder";
  EXPECT_THAT(spec.rank_spec_json, HasSubstr(folder_ / "model")) << "by the client's environment";
  EXPECT_EQ(read->order.client_token, "t");
}

TEST_F(SubmitTest, OfSeveralNodesIsLaidOutOnThem) {
  request_.set_nodes(2);
  request_.set_ranks_per_node(2);
  absl::StatusOr<Submission> read = Read();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->order.spec.world_size, 4);
  EXPECT_EQ(read->order.spec.demand.nodes, 2);
}

TEST_F(SubmitTest, WithAnErrorIsRefusedWithItsPlace) {
  request_.add_overrides("--step_scheduler.max_steps=many");
  absl::Status refused = Read().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("error: step_scheduler.max_steps: "));
  request_.clear_overrides();
  request_.clear_environment();
  EXPECT_THAT(Read().status().message(), HasSubstr("recipes/tiny.yaml:6:"));
}

TEST_F(SubmitTest, ThatMakesNoSenseIsRefused) {
  auto refused = [&](auto change, const char* said) {
    v1::SubmitRequest before = request_;
    change();
    EXPECT_THAT(Read().status().message(), HasSubstr(said));
    request_ = before;
  };
  refused([&] { request_.set_nodes(-1); }, "nodes: expected");
  refused([&] { request_.set_time_limit_ms(-1); }, "time_limit_ms: expected");
  refused([&] { request_.set_recipe_yaml(""); }, "the recipe is empty");
  refused([&] { request_.set_working_directory("here"); }, "expected an absolute path, got here");
  refused([&] { (*request_.mutable_environment())["A=B"] = "x"; }, "'A=B' cannot be the name");
  refused([&] { request_.add_overrides("x"); }, "x");
}

}  // namespace
}  // namespace am::controller

#include "launcher/plan/step_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "launcher/plan/step_time_layer.h"
#include "launcher/plan/step_time_rates.h"

namespace am::plan {
namespace {

using model::Layer;
using model::Role;

const NodeShape kNode = {.gpus = 8,
                         .gpu = "H100",
                         .gpu_memory_gb_per_s = 3350,
                         .peak_tflops_bf16 = 989,
                         .peak_tflops_fp8 = 1979,
                         .nvlink_domain_gpus = 8,
                         .nvlink_gb_per_s = 450,
                         .network_gb_per_s = 50};

Layer Dense() {
  return {
      .kind = "attention + mlp",
      .weights = {{.name = "input_layernorm.weight", .role = Role::kNorm, .out = 4096},
                  {.name = "post_attention_layernorm.weight", .role = Role::kNorm, .out = 4096},
                  {.name = "self_attn.q_proj", .role = Role::kAttention, .in = 4096, .out = 4096},
                  {.name = "self_attn.k_proj", .role = Role::kAttention, .in = 4096, .out = 1024},
                  {.name = "self_attn.v_proj", .role = Role::kAttention, .in = 4096, .out = 1024},
                  {.name = "self_attn.o_proj", .role = Role::kAttention, .in = 4096, .out = 4096},
                  {.name = "mlp.gate_proj", .role = Role::kMlp, .in = 4096, .out = 14336},
                  {.name = "mlp.up_proj", .role = Role::kMlp, .in = 4096, .out = 14336},
                  {.name = "mlp.down_proj", .role = Role::kMlp, .in = 14336, .out = 4096}},
      .attention = model::Attention{.heads = 32, .kv_heads = 8, .key_dim = 128, .value_dim = 128}};
}

Layer WithExperts() {
  Layer layer = Dense();
  layer.weights.resize(6);
  for (const char* name : {"mlp.experts.gate_proj", "mlp.experts.up_proj"}) {
    layer.weights.push_back(
        {.name = name, .role = Role::kExpert, .in = 4096, .out = 1536, .copies = 128, .uses = 8});
  }
  layer.weights.push_back({.name = "mlp.experts.down_proj",
                           .role = Role::kExpert,
                           .in = 1536,
                           .out = 4096,
                           .copies = 128,
                           .uses = 8});
  layer.weights.push_back({.name = "mlp.gate", .role = Role::kRouter, .in = 4096, .out = 128});
  return layer;
}

Workload Of(const Layer& layer, int layers = 32) {
  model::ModelShape shape{.family = "llama", .hidden_size = 4096, .vocab_size = 128000};
  shape.kinds = {layer};
  shape.layers.assign(static_cast<size_t>(layers), 0);
  shape.head = {{.name = "lm_head", .role = Role::kHead, .in = 4096, .out = 128000}};
  if (layer.has_experts()) shape.num_experts = 128;
  Workload workload{.shape = std::make_shared<model::ModelShape>(shape), .node = kNode};
  workload.seq_length = 4096;
  workload.global_batch_size = 32;
  workload.local_batch_size = workload.micro_batch_size = 2;
  workload.grad_acc_steps = 16;
  workload.layers_of_stage = {layers};
  workload.balanced_routing = true;
  workload.kernels.dispatcher = Dispatcher::kDeepEp;
  return workload;
}

double TermOf(const StepTimeEstimate& estimate, std::string_view name) {
  auto term = std::find_if(estimate.terms.begin(), estimate.terms.end(),
                           [&](const Term& each) { return each.name == name; });
  return term == estimate.terms.end() ? 0 : term->value;
}

TEST(StepTime, TermsAddUpToTheStep) {
  Workload workload = Of(WithExperts());
  workload.dims.dp_shard = workload.dims.ep = 8;
  workload.bandwidth.dp_shard = workload.bandwidth.ep = 450;
  StepTimeEstimate estimate = EstimateStepTime(workload);
  double sum = 0;
  for (const Term& term : estimate.terms) {
    sum += term.value;
    EXPECT_GT(term.value, 0) << term.name;
    EXPECT_FALSE(term.formula.empty()) << term.name;
  }
  EXPECT_NEAR(sum, estimate.seconds, 1e-9 * sum);
  EXPECT_DOUBLE_EQ(estimate.tokens_per_s, 32 * 4096 / estimate.seconds);
  EXPECT_EQ(estimate.low_seconds, estimate.seconds);
  EXPECT_EQ(estimate.high_seconds, estimate.seconds);
}

TEST(StepTime, SpendsOnProductsWhatTheirFlopsTakeAtTheCalibratedShareOfThePeak) {
  Workload workload = Of(Dense(), 1);
  double macs = model::Macs(workload.shape->kinds[0]);
  double seconds = 16 * 3 * 2 * macs * 8192 / (0.5 * 989e12);
  EXPECT_NEAR(TermOf(EstimateStepTime(workload, {.products = 0.5}), "dense products"), seconds,
              1e-9 * seconds);
}

TEST(StepTime, AFrozenBaseHasNoGradientsOfWeights) {
  Workload full = Of(Dense()), lora = full;
  lora.adapter = Adapter{.rank = 16, .modules = {"self_attn.q_proj"}};
  double ratio = TermOf(EstimateStepTime(lora), "dense products") /
                 TermOf(EstimateStepTime(full), "dense products");
  EXPECT_NEAR(ratio, 2.0 / 3, 1e-9);
  EXPECT_GT(TermOf(EstimateStepTime(lora), "adapters"), 0);
  EXPECT_EQ(TermOf(EstimateStepTime(full), "adapters"), 0);
}

TEST(StepTime, RecomputationAddsAForwardPassWithoutItsLastProduct) {
  Workload kept = Of(Dense()), again = kept;
  again.recompute = Recompute::kFull;
  double macs = model::Macs(kept.shape->kinds[0]), last = 14336.0 * 4096;
  double ratio = TermOf(EstimateStepTime(again), "dense products") /
                 TermOf(EstimateStepTime(kept), "dense products");
  EXPECT_NEAR(ratio, (3 * macs + macs - last) / (3 * macs), 1e-9);
}

TEST(StepTime, TensorParallelRanksShareTheProductsAndPayForTheirCollectives) {
  Workload alone = Of(Dense()), two = alone;
  two.dims.tp = 2;
  two.bandwidth.tp = 450;
  StepTimeEstimate one = EstimateStepTime(alone), cut = EstimateStepTime(two);
  EXPECT_NEAR(TermOf(cut, "dense products") / TermOf(one, "dense products"), 0.5, 1e-9);
  EXPECT_GT(TermOf(cut, "tensor parallel"), 0);
}

TEST(StepTime, ThePipelineIdlesByStagesOverMicroBatchesAndVirtualStages) {
  Workload workload = Of(Dense());
  workload.dims.pp = 4;
  workload.local_batch_size = 8;
  workload.micro_batch_size = 1;
  workload.grad_acc_steps = 2;
  for (int virtual_stages : {1, 2}) {
    workload.virtual_stages = virtual_stages;
    workload.layers_of_stage.assign(static_cast<size_t>(4 * virtual_stages), 8 / virtual_stages);
    StepTimeEstimate estimate = EstimateStepTime(workload);
    double bubble = TermOf(estimate, "pipeline bubble");
    double busy = estimate.seconds - bubble - TermOf(estimate, "optimizer") -
                  TermOf(estimate, "host work on tensors");
    EXPECT_NEAR(bubble / busy, 3.0 / (8 * virtual_stages), 1e-6) << virtual_stages;
  }
}

TEST(StepTime, GoesAtThePaceOfTheStageWithTheMostLayers) {
  Workload even = Of(Dense()), uneven = even;
  even.dims.pp = uneven.dims.pp = 4;
  even.layers_of_stage = {8, 8, 8, 8};
  uneven.layers_of_stage = {6, 12, 8, 6};
  double ratio = TermOf(EstimateStepTime(uneven), "dense products") /
                 TermOf(EstimateStepTime(even), "dense products");
  EXPECT_NEAR(ratio, 12.0 / 8, 1e-9);
}

TEST(StepTime, TheBalancedGateSendsATokenToNeighbouringExperts) {
  // 8 in a row of 256 over 64 ranks of four: at least two, three when they start within one.
  EXPECT_DOUBLE_EQ(CopiesOfToken(256, 8, 64, true), 1 + 7.0 * 64 / 256);
  EXPECT_DOUBLE_EQ(CopiesOfToken(32, 4, 8, true), 1 + 3.0 * 8 / 32);
  EXPECT_NEAR(CopiesOfToken(256, 8, 64, false), 64 * (1 - std::pow(63.0 / 64, 8)), 1e-12);
  EXPECT_DOUBLE_EQ(CopiesOfToken(128, 8, 1, false), 1);
}

TEST(StepTime, ExpertsAcrossNodesWaitForTheNetwork) {
  Workload inside = Of(WithExperts());
  inside.dims.ep = inside.dims.dp_shard = 8;
  inside.bandwidth.ep = 450;
  Workload across = inside;
  across.dims.ep = across.dims.dp_shard = 64;
  across.bandwidth.ep = 50;
  across.bandwidth.ep_nodes = 8;
  EXPECT_GT(TermOf(EstimateStepTime(across), "expert all-to-all"),
            2 * TermOf(EstimateStepTime(inside), "expert all-to-all"));
}

TEST(StepTime, RealRoutingReachesMoreRanksAndLoadsThemUnevenly) {
  Workload balanced = Of(WithExperts());
  balanced.dims.ep = balanced.dims.dp_shard = 8;
  balanced.bandwidth.ep = 450;
  Workload real = balanced;
  real.balanced_routing = false;
  StepTimeEstimate a = EstimateStepTime(balanced), b = EstimateStepTime(real);
  EXPECT_GT(TermOf(b, "expert products"), 1.2 * TermOf(a, "expert products"));
  EXPECT_GT(TermOf(b, "expert all-to-all"), 2 * TermOf(a, "expert all-to-all"));
}

TEST(StepTime, ShowsTheShardingTrafficThatComputationCannotHide) {
  Workload workload = Of(Dense());
  workload.dims.dp_shard = 16;
  workload.bandwidth.dp_shard = 400;
  StepTimeEstimate fast = EstimateStepTime(workload);
  workload.bandwidth.dp_shard = 1;
  StepTimeEstimate slow = EstimateStepTime(workload);
  double computation = slow.seconds - TermOf(slow, "sharding traffic") - TermOf(slow, "optimizer") -
                       TermOf(slow, "host work on tensors");
  double all = 400 * TermOf(fast, "sharding traffic") / 0.5;
  EXPECT_NEAR(TermOf(slow, "sharding traffic"), all - computation, 1e-6 * all);
}

TEST(StepTime, SlowerKernelsTakeLonger) {
  Layer wide = Dense();
  Rates rates = RatesOf(Of(wide), {});
  auto rate = [&](AttentionKernel kernel, model::Attention attention) {
    return rates.Attention(attention, kernel);
  };
  model::Attention latent = {
      .heads = 128, .kv_heads = 128, .key_dim = 192, .value_dim = 128, .latent = true};
  double best = rate(AttentionKernel::kTransformerEngine, *wide.attention);
  EXPECT_GT(best, rate(AttentionKernel::kSdpa, *wide.attention));
  EXPECT_GT(best, rate(AttentionKernel::kFlex, *wide.attention));
  EXPECT_GT(rate(AttentionKernel::kSdpa, *wide.attention), rate(AttentionKernel::kSdpa, latent));
  model::Attention picked = {
      .heads = 24, .kv_heads = 2, .key_dim = 128, .value_dim = 128, .top_k = 512};
  EXPECT_DOUBLE_EQ(rate(AttentionKernel::kTransformerEngine, picked), best * 12 / 64);
}

TEST(StepTime, EightBitProductsAreFasterAndPayForTheirCasts) {
  Workload wide = Of(WithExperts()), narrow = wide;
  narrow.precision = Precision::kFp8;
  StepTimeEstimate a = EstimateStepTime(wide), b = EstimateStepTime(narrow);
  EXPECT_LT(TermOf(b, "expert products"), TermOf(a, "expert products"));
  EXPECT_LT(TermOf(b, "dense products"), TermOf(a, "dense products"));
  EXPECT_GT(TermOf(b, "casts to 8 bits"), 0);
  narrow.kernels.quantized_dense = false;
  StepTimeEstimate experts = EstimateStepTime(narrow);
  EXPECT_EQ(TermOf(experts, "dense products"), TermOf(a, "dense products"));
  EXPECT_EQ(TermOf(experts, "expert products"), TermOf(b, "expert products"));
}

TEST(StepTime, EachCalibratedNumberMovesAStepThatExercisesIt) {
  Workload workload = Of(WithExperts());
  workload.dims.dp_shard = workload.dims.ep = 8;
  workload.bandwidth.dp_shard = workload.bandwidth.ep = 450;
  for (const CalibrationField& field : CalibrationFields()) {
    Workload exercises = workload;
    if (std::string_view(field.name).starts_with("low_precision")) {
      exercises.precision = Precision::kFp8;
    }
    bool rate = field.expected > 0.01;  // else seconds
    Calibration better;
    better.*field.number *= rate ? 1.1 : 1 / 1.1;
    EXPECT_LT(EstimateStepTime(exercises, better).seconds, EstimateStepTime(exercises).seconds)
        << field.name;
  }
}

TEST(StepTime, RealDataIsARangeThatSaysWhy) {
  Workload workload = Of(Dense());
  workload.real_data = true;
  StepTimeEstimate estimate = EstimateStepTime(workload);
  EXPECT_GE(estimate.low_seconds, estimate.seconds);
  EXPECT_GT(estimate.high_seconds, estimate.low_seconds);
  EXPECT_THAT(estimate.notes, testing::Contains(testing::HasSubstr("real data")));
}

TEST(StepTime, SaysWhyItCannotTell) {
  Workload workload = Of(Dense());
  workload.node = {};
  StepTimeEstimate estimate = EstimateStepTime(workload);
  EXPECT_EQ(estimate.seconds, 0);
  EXPECT_TRUE(estimate.terms.empty());
  EXPECT_THAT(estimate.notes, testing::ElementsAre(testing::HasSubstr("peak")));
}

}  // namespace
}  // namespace am::plan

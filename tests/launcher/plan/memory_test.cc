#include "launcher/plan/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "launcher/plan/activations.h"
#include "launcher/plan/sharding.h"
#include "tests/launcher/plan/memory_models.h"

namespace am::plan {
namespace {

using ::testing::HasSubstr;
using testing::OnH100;

constexpr double kGib = 1024.0 * 1024 * 1024;

double SumOf(const std::vector<Term>& terms) {
  double sum = 0;
  for (const Term& term : terms) sum += term.value;
  return sum;
}

std::string FormulaOf(const std::vector<Term>& terms, const std::string& name) {
  for (const Term& term : terms)
    if (term.name == name) return term.formula;
  return "no term " + name;
}

TEST(Memory, CountsSixteenBytesAParameterOnOneGpuAsZeroDoes) {
  // Rajbhandari et al. 2020, section 3.1: 2 + 2 of parameters and gradients, 12 of float32 copies.
  Workload w = OnH100(testing::Llama(testing::kLlama8B), 1, 1, 1);
  w.bytes.gradient = 2;
  RankMemory memory = EstimateMemory(w).worst;
  EXPECT_NEAR((memory.parameters + memory.gradients + memory.optimizer) * kGib, 16.0 * 8030261248.0,
              16);
}

TEST(Memory, ShardsStatesOverFsdpRanks) {
  Workload one = OnH100(testing::Llama(testing::kLlama8B), 1, 1, 1);
  Workload eight = OnH100(testing::Llama(testing::kLlama8B), 8, 1, 1);
  EXPECT_NEAR(EstimateMemory(eight).worst.optimizer, EstimateMemory(one).worst.optimizer / 8, 1e-9);
  EXPECT_THAT(FormulaOf(ExplainMemory(eight), "parameters"),
              "8.03e9 parameters · 2 B / 8 shards = 1.87 GiB");
  eight.strategy = "ddp";
  EXPECT_NEAR(EstimateMemory(eight).worst.optimizer, EstimateMemory(one).worst.optimizer, 1e-9);
}

TEST(Memory, KeepsWholeGradientsWhereTheirReductionWaitsForTheLastMicroBatch) {
  Workload w = OnH100(testing::Llama(testing::kLlama8B), 8, 128, 1);
  w.grad_acc_steps = 4;
  double sharded = EstimateMemory(w).worst.gradients;
  w.keeps_full_gradients = true;
  double whole = EstimateMemory(w).worst.gradients;
  EXPECT_GT(whole - sharded, 8030261248.0 * 4 * 6 / 8 / kGib);
  w.grad_acc_steps = 1;
  EXPECT_DOUBLE_EQ(EstimateMemory(w).worst.gradients, sharded);
}

TEST(Memory, CountsTheStatesOfAdaptersAlone) {
  Workload w = OnH100(testing::Llama(testing::kLlama8B), 1, 1, 1);
  w.adapter = Adapter{.rank = 16, .modules = {"self_attn.q_proj", "mlp.down_proj"}};
  double numbers = 32 * 16 * ((4096 + 4096) + (14336 + 4096));
  RankMemory memory = EstimateMemory(w).worst;
  EXPECT_NEAR(memory.optimizer * kGib, numbers * 12, 1);
  EXPECT_NEAR(memory.parameters * kGib, numbers * 2 + 8030261248.0 * 2, 1);
  w.bytes.frozen = 0.515869140625;  // NF4
  // Embedding, head and norms stay as they are; a layer is unpacked while it is at work.
  double packed = 32 * 218103808.0, rest = 8030261248.0 - packed;
  EXPECT_NEAR(EstimateMemory(w).worst.parameters * kGib,
              numbers * 2 + packed * 0.515869140625 + rest * 2 + packed / 32 * 2, 8);
}

TEST(Memory, SpreadsExpertsOverEpAndItsShards) {
  Workload w = OnH100(testing::Qwen3Moe30B(), 16, 128, 1);
  w.dims.ep = 8;
  double experts = 48.0 * 128 * 3 * 2048 * 768;
  double dense = ParametersOfStage(w, 0) - experts;
  EXPECT_EQ(ParametersOfStage(w, 0), static_cast<double>(model::Parameters(*w.shape)));
  EXPECT_NEAR(ParametersOfRank(w, 0), experts / 8 / 2 + dense / 16, 1);
  w.dims.ep = 1;
  EXPECT_NEAR(ParametersOfRank(w, 0), (experts + dense) / 16, 1);
}

TEST(Memory, StagesHoldTheWholeModelBetweenThem) {
  Workload w = OnH100(testing::Llama(testing::kLlama8B), 2, 128, 8);
  w.dims.pp = 4;
  w.virtual_stages = 2;
  w.micro_batch_size = 1;
  double sum = 0;
  for (int stage = 0; stage < 4; ++stage) sum += ParametersOfStage(w, stage);
  EXPECT_EQ(sum, static_cast<double>(model::Parameters(*w.shape)));
}

TEST(Memory, APlainTransformerKeepsWhatKorthikantiCounts) {
  // sbh(34 + 5as/h), of which two bytes are dropout masks and 5as/h attention's: gone with flash
  // attention, which keeps a float32 log-sum-exp a head instead.
  Workload w;
  auto shape = std::make_shared<model::ModelShape>(*testing::Llama(testing::kLlama8B));
  shape->hidden_size = 4096;
  model::Layer layer;
  auto add = [&](const char* name, model::Role role, int64_t in, int64_t out) {
    layer.weights.push_back({.name = name, .role = role, .in = in, .out = out});
  };
  add("input_layernorm.weight", model::Role::kNorm, 0, 4096);
  add("post_attention_layernorm.weight", model::Role::kNorm, 0, 4096);
  for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"})
    add(name, model::Role::kAttention, 4096, 4096);
  add("up_proj", model::Role::kMlp, 4096, 4 * 4096);
  add("down_proj", model::Role::kMlp, 4 * 4096, 4096);
  layer.attention = model::Attention{.heads = 32, .kv_heads = 32, .key_dim = 128, .value_dim = 128};
  w.shape = shape;
  w.seq_length = 2048;
  EXPECT_DOUBLE_EQ(OfRank(w, ActivationsOf(w, layer).All()), 32 * 4096 + 4 * 32);
  // Equation 2: tp divides all but 10 sbh, 2 of which are dropout masks; with the sequence, all.
  w.dims.tp = 8;
  EXPECT_DOUBLE_EQ(OfRank(w, ActivationsOf(w, layer).All()), 8 * 4096 + (24 * 4096 + 4 * 32) / 8.0);
  w.sequence_parallel = true;
  EXPECT_DOUBLE_EQ(OfRank(w, ActivationsOf(w, layer).All()), (32 * 4096 + 4 * 32) / 8.0);
  // Full recomputation keeps 2 sbh.
  EXPECT_DOUBLE_EQ(ActivationsOf(w, layer).input, 2 * 4096);
}

TEST(Memory, KeepsMicroBatchesInFlightByStage) {
  Workload w = OnH100(testing::Llama(testing::kLlama8B), 1, 4096, 16);
  w.dims.pp = 4;
  w.micro_batch_size = 1;
  auto in_flight = [&](int stage) {
    std::string formula = FormulaOf(ExplainMemory(w, stage), "activations");
    return formula.substr(0, formula.find(" in flight"));
  };
  EXPECT_EQ(in_flight(0), "8 × attention + mlp · 4");
  EXPECT_EQ(in_flight(3), "8 × attention + mlp · 1");
  // Narayanan et al. 2021, section 2.2: the first rank keeps 1 + (p - 1) / (p v) of the model.
  w.virtual_stages = 4;
  EXPECT_EQ(in_flight(0), "8 × attention + mlp · 4.75");
  EXPECT_EQ(in_flight(3), "8 × attention + mlp · 3.25");
  w.local_batch_size = 2;  // never more than there are
  w.virtual_stages = 1;
  EXPECT_EQ(in_flight(0), "8 × attention + mlp · 2");
}

TEST(Memory, TermsAddUpToTheTotal) {
  std::vector<Workload> cases;
  cases.push_back(OnH100(testing::Llama(testing::kLlama8B), 8, 8192, 2));
  cases.push_back(OnH100(testing::Qwen3Moe30B(), 8, 4096, 4));
  cases.back().dims.ep = 8;
  cases.back().grad_acc_steps = 16;
  cases.back().keeps_full_gradients = cases.back().keeps_gathered = true;
  cases.back().recompute = Recompute::kFull;
  cases.push_back(cases.back());
  cases.back().dims.pp = 2;
  cases.back().dims.dp_shard = 4;
  cases.back().dims.ep = 4;
  cases.back().micro_batch_size = 1;
  cases.back().precision = Precision::kMxfp8;
  cases.push_back(OnH100(testing::Llama(testing::kLlama70B), 4, 32768, 1));
  cases.back().dims.tp = 2;
  cases.back().dims.cp = 2;
  cases.back().adapter = Adapter{.modules = {"self_attn.q_proj"}};
  for (const Workload& w : cases) {
    MemoryEstimate memory = EstimateMemory(w);
    for (int stage = 0; stage < w.dims.pp; ++stage) {
      EXPECT_NEAR(SumOf(ExplainMemory(w, stage)), memory.stages[stage].total(), 1e-9);
      EXPECT_LE(memory.stages[stage].total(), memory.worst.total());
    }
  }
}

TEST(Memory, RecomputationKeepsLess) {
  Workload w = OnH100(testing::Llama(testing::kLlama8B), 8, 8192, 1);
  w.kernels.fused_loss = true;
  double none = EstimateMemory(w).worst.activations;
  w.recompute = Recompute::kSelective;
  double selective = EstimateMemory(w).worst.activations;
  w.recompute = Recompute::kFull;
  double full = EstimateMemory(w).worst.activations;
  EXPECT_LT(selective, 0.6 * none);
  EXPECT_LT(full, 0.4 * selective);
}

TEST(Memory, UnevenRoutingTakesRoomForTheFullestRank) {
  Workload w = OnH100(testing::Qwen3Moe30B(), 8, 32768, 4);
  double alone = EstimateMemory(w).worst.activations;
  w.dims.ep = 8;
  double uneven = EstimateMemory(w).worst.activations;
  w.balanced_routing = true;
  EXPECT_NEAR(EstimateMemory(w).worst.activations, alone, 1e-6);
  EXPECT_GT(uneven, 1.1 * alone);
}

TEST(Memory, NamesTheCheapestCuresWithTheirEffect) {
  Workload w = OnH100(testing::Llama(testing::kLlama8B), 8, 8192, 4);
  w.node.gpu_memory_limit_gib = 79.1;
  EXPECT_FALSE(EstimateMemory(w).fits());
  std::vector<MemoryCure> cures = CuresFor(w);
  ASSERT_FALSE(cures.empty());
  EXPECT_LE(cures.size(), 3u);
  EXPECT_EQ(cures[0].change, "step_scheduler.local_batch_size: 1");
  EXPECT_TRUE(cures[0].after.fits());
  std::string why = WhyItDoesNotFit(w);
  EXPECT_THAT(why, HasSubstr("needs "));
  EXPECT_THAT(why, HasSubstr(" GiB of the 79.1 GiB of a GPU (parameters "));
  EXPECT_THAT(why, HasSubstr("; use step_scheduler.local_batch_size: 1 ("));
  w.local_batch_size = w.micro_batch_size = 1;
  w.recompute = Recompute::kFull;
  EXPECT_TRUE(EstimateMemory(w).fits());
  EXPECT_EQ(WhyItDoesNotFit(w), "");
}

TEST(Memory, SaysWhatHelpsMostWhereNothingIsEnough) {
  Workload w = OnH100(testing::Llama(testing::kLlama405B), 8, 8192, 1);
  std::vector<MemoryCure> cures = CuresFor(w);
  ASSERT_EQ(cures.size(), 3u);
  EXPECT_FALSE(cures[0].after.fits());
  EXPECT_LE(cures[0].after.worst.total(), cures[1].after.worst.total());
  EXPECT_THAT(WhyItDoesNotFit(w), HasSubstr("; no single change is enough, most help "));
}

TEST(Memory, RanksOnTheCpuShareTheNode) {
  Workload w = OnH100(testing::Llama(testing::kLlama1B), 2, 512, 1);
  w.node = {.memory_gib = 64};
  w.ranks_per_node = 2;
  EXPECT_EQ(EstimateMemory(w).limit, 32);
  for (const Term& term : ExplainMemory(w)) EXPECT_NE(term.name, "CUDA context");
}

TEST(Memory, OnTheCpuIsNearWhatARankMeasures) {
  // Peak resident size of am-rank, step 2: SmolLM2-135M-Instruct, 4 sequences, AdamW, masked_ce.
  struct Run {
    const char* name;
    bool float32;
    bool adapters;
    Recompute recompute;
    int64_t seq;
    double measured;
  };
  constexpr Run kRuns[] = {
      {"float32", true, false, Recompute::kNone, 256, 3.14},
      {"float32, recomputed", true, false, Recompute::kFull, 256, 2.60},
      {"float32, short", true, false, Recompute::kNone, 32, 2.24},
      {"bfloat16", false, false, Recompute::kNone, 256, 2.70},
      {"bfloat16, short", false, false, Recompute::kNone, 32, 2.29},
      {"LoRA, float32", true, true, Recompute::kNone, 256, 2.14},
      {"LoRA, float32, short", true, true, Recompute::kNone, 32, 0.87},
      {"LoRA, bfloat16", false, true, Recompute::kNone, 256, 1.08},
      {"LoRA, bfloat16, short", false, true, Recompute::kNone, 32, 0.63},
  };
  for (const Run& run : kRuns) {
    Workload w = OnH100(testing::Llama({576, 30, 9, 3, 1536, 49152, true, 64}), 1, run.seq, 4);
    w.node = {.memory_gib = 24};
    w.kernels.attention = AttentionKernel::kSdpa;
    w.kernels.fused_elementwise = false;
    w.recompute = run.recompute;
    if (run.float32) {
      w.precision = Precision::kFloat32;
      w.bytes = {.parameter = 4, .gradient = 4, .master = 0, .frozen = 4};
    }
    if (run.adapters) {
      w.adapter = Adapter{};
      for (const model::Weight& weight : w.shape->kinds[0].weights)
        if (weight.in > 0) w.adapter->modules.push_back(weight.name);
    }
    double estimate = EstimateMemory(w).worst.total();
    std::printf("%-22s measured %5.2f GiB  estimate %5.2f GiB  %+5.1f %%\n", run.name, run.measured,
                estimate, 100 * (estimate / run.measured - 1));
    EXPECT_NEAR(estimate / run.measured, 1, 0.15) << run.name;
  }
}

TEST(Memory, TakesMicroseconds) {
  Workload w = OnH100(testing::Qwen3Moe30B(), 1024, 4096, 8);
  w.dims.pp = 8;
  w.micro_batch_size = 1;
  auto begin = std::chrono::steady_clock::now();
  double sum = 0;
  for (int i = 0; i < 1000; ++i) sum += EstimateMemory(w).worst.total();
  std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
  EXPECT_GT(sum, 0);
  EXPECT_LT(took.count() / 1000, 100);  // 5 on a laptop; slow and instrumented machines, too
}

}  // namespace
}  // namespace am::plan

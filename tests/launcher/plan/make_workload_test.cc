#include "launcher/plan/make_workload.h"

#include "launcher/plan/plan.h"
#include "tests/launcher/plan/recipes.h"

namespace am::plan {
namespace {

using model::Role;

// Ten layers: a dense one, then experts.
std::shared_ptr<const model::ModelShape> Shape() {
  model::ModelShape shape{.family = "llama", .hidden_size = 64, .vocab_size = 1000};
  shape.kinds.push_back(
      {.kind = "attention + MLP",
       .weights = {{.name = "self_attn.q_proj", .role = Role::kAttention, .in = 64, .out = 64},
                   {.name = "self_attn.o_proj", .role = Role::kAttention, .in = 64, .out = 64},
                   {.name = "mlp.down_proj", .role = Role::kMlp, .in = 256, .out = 64},
                   {.name = "input_layernorm", .role = Role::kNorm, .out = 64}}});
  shape.kinds.push_back(
      {.kind = "attention + experts",
       .weights = {{.name = "self_attn.q_proj", .role = Role::kAttention, .in = 64, .out = 64},
                   {.name = "mlp.gate", .role = Role::kRouter, .in = 64, .out = 8},
                   {.name = "mlp.experts.down_proj",
                    .role = Role::kExpert,
                    .in = 32,
                    .out = 64,
                    .copies = 8,
                    .uses = 2}}});
  shape.layers = {0, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  shape.head = {{.name = "norm", .role = Role::kNorm, .out = 64},
                {.name = "lm_head", .role = Role::kHead, .in = 64, .out = 1000}};
  shape.config = {{"torch_dtype", "bfloat16"}};
  return std::make_shared<model::ModelShape>(shape);
}

const NodeShape kGpus = {.gpus = 8, .gpu = "H100"};

Workload Of(const std::string& sections, const NodeShape& node = kGpus) {
  std::string text = "recipe: TrainFinetuneRecipeForNextTokenPrediction\n" + sections + "\n";
  if (sections.find("dataset:") == std::string::npos) {
    text += "dataset: {_target_: make_squad_dataset, dataset_name: d}\n";
  }
  if (sections.find("model:") == std::string::npos)
    text += "model: {pretrained_model_name_or_path: m}\n";
  recipe::LoadResult loaded = recipe::LoadRecipe({.path = "r.yaml", .text = text});
  EXPECT_TRUE(loaded.recipe) << recipe::RenderText(loaded.diagnostics);
  return TrainingOf(loaded.recipe.value_or(recipe::Recipe()), Shape(), node).workload;
}

TEST(MakeWorkload, TakesThePrecisionFromTheDtypesAndTheFp8Switches) {
  const std::pair<const char*, Precision> kCases[] = {
      {"", Precision::kBfloat16},
      {"model: {pretrained_model_name_or_path: m, torch_dtype: float32}", Precision::kFloat32},
      {"model: {pretrained_model_name_or_path: m, torch_dtype: fp16}", Precision::kFloat16},
      {"model: {pretrained_model_name_or_path: m, torch_dtype: float32}\ndistributed: {mp_policy: "
       "{param_dtype: bf16}}",
       Precision::kBfloat16},
      {"model: {pretrained_model_name_or_path: m, backend: {te_fp8: {recipe: block}}}",
       Precision::kFp8},
      {"model: {pretrained_model_name_or_path: m, backend: {te_fp8: {recipe: mxfp8}}}",
       Precision::kMxfp8},
      {"fp8: {enabled: true}", Precision::kFp8},
      {"fp8: {enabled: false}", Precision::kBfloat16},
  };
  for (auto [sections, expected] : kCases) {
    EXPECT_EQ(Of(sections).precision, expected) << sections;
  }
}

TEST(MakeWorkload, CountsTheBytesThatTheOptimizerKeeps) {
  struct Case {
    const char* sections;
    double parameter, resident, gradient, master, moment1, moment2;
  };
  const Case kCases[] = {
      {"", 2, 0, 4, 4, 4, 4},
      {"model: {pretrained_model_name_or_path: m, torch_dtype: float32}", 4, 0, 4, 0, 4, 4},
      {"model: {pretrained_model_name_or_path: m, torch_dtype: float32}\ndistributed: {mp_policy: "
       "{param_dtype: bf16}}",
       2, 4, 4, 0, 4, 4},
      {"distributed: {mp_policy: {reduce_dtype: bf16}}", 2, 0, 2, 4, 4, 4},
      {"optimizer: {_target_: torch.optim.AdamW, master_weight_dtype: bf16, exp_avg_dtype: bf16, "
       "exp_avg_sq_dtype: bf16}",
       2, 0, 4, 0, 2, 2},
      {"optimizer: {_target_: torch.optim.AdamW, amsgrad: true}", 2, 0, 4, 4, 4, 8},
      {"optimizer: {_target_: torch.optim.SGD}", 2, 0, 4, 4, 0, 0},
      {"optimizer: {_target_: torch.optim.SGD, momentum: 0.9}", 2, 0, 4, 4, 4, 0},
      {"optimizer: {_target_: dion.Muon}", 2, 0, 4, 4, 4, 0},
  };
  for (const Case& c : kCases) {
    StateBytes bytes = Of(c.sections).bytes;
    EXPECT_EQ(bytes.parameter, c.parameter) << c.sections;
    EXPECT_EQ(bytes.resident, c.resident) << c.sections;
    EXPECT_EQ(bytes.gradient, c.gradient) << c.sections;
    EXPECT_EQ(bytes.master, c.master) << c.sections;
    EXPECT_EQ(bytes.moment1, c.moment1) << c.sections;
    EXPECT_EQ(bytes.moment2, c.moment2) << c.sections;
  }
}

TEST(MakeWorkload, KeepsAFrozenBaseInTheBitsThatTheRecipeSays) {
  const std::pair<const char*, double> kCases[] = {
      {"peft: {dim: 8, target_modules: '*_proj'}", 2},
      {"peft: {dim: 8, target_modules: '*_proj'}\nquantization: {load_in_8bit: true}", 1},
      {"peft: {dim: 8, target_modules: '*_proj'}\nquantization: {load_in_4bit: true}",
       0.5 + 1.0 / 64 + 4.0 / 16384},
      {"peft: {dim: 8, target_modules: '*_proj'}\nquantization: {load_in_4bit: true, "
       "bnb_4bit_use_double_quant: false}",
       0.5625},
  };
  for (auto [sections, expected] : kCases) {
    EXPECT_DOUBLE_EQ(Of(sections).bytes.frozen, expected) << sections;
  }
}

TEST(MakeWorkload, TakesKernelsFromTheBackendThenFromTheModel) {
  const std::pair<const char*, AttentionKernel> kCases[] = {
      {"", AttentionKernel::kTransformerEngine},
      {"model: {pretrained_model_name_or_path: m, attn_implementation: sdpa}",
       AttentionKernel::kSdpa},
      {"model: {pretrained_model_name_or_path: m, attn_implementation: flash_attention_2}",
       AttentionKernel::kFlash},
      {"model: {pretrained_model_name_or_path: m, attn_implementation: eager}",
       AttentionKernel::kEager},
      {"model: {pretrained_model_name_or_path: m, attn_implementation: eager, backend: {attn: "
       "flex}}",
       AttentionKernel::kFlex},
      {"model: {pretrained_model_name_or_path: m, backend: {attn: tilelang}}",
       AttentionKernel::kTileLang},
      {"model: {pretrained_model_name_or_path: m, backend: {attn: cudnn}}",
       AttentionKernel::kTransformerEngine},
  };
  for (auto [sections, expected] : kCases) {
    EXPECT_EQ(Of(sections).kernels.attention, expected) << sections;
  }
  EXPECT_EQ(Of("", {}).kernels.attention, AttentionKernel::kSdpa) << "no GPU";

  Kernels kernels = Of("model: {pretrained_model_name_or_path: m, backend: {attn: sdpa, linear: "
                       "torch, rms_norm: torch_fp32, "
                       "experts: torch, dispatcher: hybridep}}\n"
                       "loss_fn: {_target_: FusedLinearCrossEntropy}\n"
                       "compile: {enabled: true}\n"
                       "distributed: {enable_fsdp2_prefetch: true}")
                        .kernels;
  EXPECT_FALSE(kernels.fused_elementwise);
  EXPECT_FALSE(kernels.grouped_experts);
  EXPECT_EQ(kernels.dispatcher, Dispatcher::kHybridEp);
  EXPECT_TRUE(kernels.fused_loss);
  EXPECT_TRUE(kernels.compiled);
  EXPECT_TRUE(kernels.prefetch);
  EXPECT_TRUE(Of("model: {pretrained_model_name_or_path: m, backend: {linear: te, experts: gmm}}")
                  .kernels.fused_elementwise);
  EXPECT_EQ(Of("model: {pretrained_model_name_or_path: m, backend: {dispatcher: deepep}}")
                .kernels.dispatcher,
            Dispatcher::kDeepEp);
}

TEST(MakeWorkload, LeavesRecomputationOpenWhereTheRecipeIsSilent) {
  struct Case {
    const char* sections;
    Recompute recompute;
    bool assumed;
  };
  const Case kCases[] = {
      {"", Recompute::kNone, true},
      {"distributed: {activation_checkpointing: null}", Recompute::kNone, true},
      {"distributed: {activation_checkpointing: false}", Recompute::kNone, false},
      {"distributed: {activation_checkpointing: true}", Recompute::kFull, false},
      {"distributed: {activation_checkpointing: selective}", Recompute::kSelective, false},
  };
  for (const Case& c : kCases) {
    Workload workload = Of(c.sections);
    EXPECT_EQ(workload.recompute, c.recompute) << c.sections;
    EXPECT_EQ(workload.recompute_assumed, c.assumed) << c.sections;
  }
}

TEST(MakeWorkload, MatchesAdaptersByPatternsOverModuleNames) {
  using Names = std::vector<std::string>;
  const std::pair<const char*, Names> kCases[] = {
      {"peft: {dim: 4, target_modules: '*_proj'}",
       {"self_attn.q_proj", "self_attn.o_proj", "mlp.down_proj", "mlp.experts.down_proj"}},
      {"peft: {target_modules: [q_proj]}", {"self_attn.q_proj"}},
      {"peft: {target_modules: ['*.o.proj']}", {"self_attn.o_proj"}},
      {"peft: {target_modules: ['*.proj']}",
       {"self_attn.q_proj", "self_attn.o_proj", "mlp.down_proj", "mlp.experts.down_proj"}},
      {"peft: {target_modules: [model.layers.0.mlp.down_proj]}", {"mlp.down_proj"}},
      {"peft: {exclude_modules: ['*down_proj', lm_head]}",
       {"self_attn.q_proj", "self_attn.o_proj"}},
      {"peft: {match_all_linear: true}",
       {"self_attn.q_proj", "self_attn.o_proj", "mlp.down_proj", "mlp.experts.down_proj",
        "lm_head"}},
      {"peft: {target_modules: [nothing]}", {}},
  };
  for (const auto& [sections, expected] : kCases) {
    std::optional<Adapter> adapter = Of(sections).adapter;
    ASSERT_TRUE(adapter) << sections;
    EXPECT_EQ(adapter->modules, expected) << sections;
  }
  EXPECT_FALSE(Of("").adapter);
  EXPECT_EQ(Of("peft: {dim: 4, target_modules: '*_proj'}").adapter->rank, 4);
}

TEST(MakeWorkload, KnowsMadeUpDataAndBalancedRouting) {
  EXPECT_TRUE(Of("").real_data);
  EXPECT_FALSE(Of("dataset: {_target_: MockIterableDataset, seq_len: 128}").real_data);
  EXPECT_FALSE(Of("").balanced_routing);
  EXPECT_TRUE(Of("model: {pretrained_model_name_or_path: m, backend: {fake_balanced_gate: true}}")
                  .balanced_routing);
  EXPECT_EQ(Of("").mtp_depths, 0);
  EXPECT_EQ(Of("model: {pretrained_model_name_or_path: m, num_nextn_predict_layers: 2}").mtp_depths,
            2);
}

TEST(MakeWorkload, CutsLayersWithTheLargerStagesFirst) {
  EXPECT_EQ(CutLayers(10, 4), (std::vector<int>{3, 3, 2, 2}));
  EXPECT_EQ(CutLayers(8, 4), (std::vector<int>{2, 2, 2, 2}));
  EXPECT_EQ(CutLayers(2, 3), (std::vector<int>{1, 1, 0}));
}

TEST(MakeWorkload, ASharedAxisUsesThePortsOfAllItsRanksInADomain) {
  NodeShape node{
      .gpus = 8, .nvlink_domain_gpus = 8, .nvlink_gb_per_s = 450, .network_gb_per_s = 50};
  AxisBandwidth bandwidth = BandwidthOf({{.axis = MeshAxis::kDpShard,
                                          .size = 16,
                                          .fabric = "network",
                                          .gb_per_s = 50,
                                          .ranks_in_domain = 4},
                                         {.axis = MeshAxis::kTp,
                                          .size = 2,
                                          .fabric = "nvlink",
                                          .gb_per_s = 450,
                                          .ranks_in_domain = 2},
                                         {.axis = MeshAxis::kEp,
                                          .size = 32,
                                          .fabric = "network",
                                          .gb_per_s = 50,
                                          .ranks_in_domain = 8}},
                                        node);
  EXPECT_EQ(bandwidth.dp_shard, 200);
  EXPECT_EQ(bandwidth.tp, 450);
  EXPECT_EQ(bandwidth.ep, 50);
  EXPECT_EQ(bandwidth.ep_nodes, 4);
  EXPECT_EQ(bandwidth.cp, 0);
}

TEST(MakeWorkload, LaysThePlanOver) {
  Cluster cluster{.name = "test",
                  .nodes = 2,
                  .node = {.gpus = 8,
                           .gpu = "H100",
                           .nvlink_domain_gpus = 8,
                           .nvlink_gb_per_s = 450,
                           .network_gb_per_s = 50}};
  recipe::Recipe recipe = testing::SmallRecipe(
      "step_scheduler: {global_batch_size: 64, local_batch_size: 8}\n"
      "packed_sequence: {packed_sequence_size: 4096}\n"
      "distributed: {pp_size: 4, tp_size: 2, pipeline: {pp_schedule: interleaved1f1b}}");
  PlanResult planned = MakePlan(recipe, cluster);
  ASSERT_TRUE(planned.plan) << recipe::RenderText(planned.diagnostics);
  Workload workload = MakeWorkload(recipe, *planned.plan, Shape(), cluster.node);
  EXPECT_EQ(workload.dims.pp, 4);
  EXPECT_EQ(workload.dims.dp_shard, 2);
  EXPECT_EQ(workload.seq_length, 4096);
  EXPECT_EQ(workload.grad_acc_steps, 4);
  EXPECT_EQ(workload.local_batch_size, 8);
  EXPECT_EQ(workload.micro_batch_size, 1);
  EXPECT_EQ(workload.virtual_stages, 2);
  EXPECT_EQ(workload.layers_of_stage, (std::vector<int>{2, 2, 1, 1, 1, 1, 1, 1}));
  EXPECT_TRUE(workload.keeps_gathered) << "under a pipeline";
  EXPECT_TRUE(workload.keeps_full_gradients) << "until the last micro-batch";
  EXPECT_EQ(workload.bandwidth.tp, 450);
  EXPECT_EQ(workload.bandwidth.pp, 50);
}

}  // namespace
}  // namespace am::plan

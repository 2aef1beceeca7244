#include "launcher/plan/plan.h"

#include <chrono>
#include <sstream>

#include "tests/launcher/plan/plans.h"
#include "tests/launcher/plan/recipes.h"

namespace am::plan {
namespace {

Cluster Gpus(int nodes, int gpus, int domain) {
  return {.name = "test",
          .nodes = nodes,
          .node = {.gpus = gpus, .gpu = "H100", .nvlink_domain_gpus = domain}};
}

Plan Make(const std::string& sections, const Cluster& cluster, const PlanOptions& options = {}) {
  PlanResult result = MakePlan(testing::SmallRecipe(sections), cluster, options);
  EXPECT_TRUE(result.plan) << recipe::RenderText(result.diagnostics);
  return result.plan ? *result.plan : Plan();
}

std::string FabricOf(const Plan& plan, MeshAxis wanted) {
  for (const PlannedAxis& axis : plan.axes) {
    if (axis.axis == wanted) return axis.fabric;
  }
  return "";
}

TEST(Plan, TakesARankForEachGpuAndOneWhereThereIsNone) {
  EXPECT_EQ(Make("", Gpus(2, 8, 8)).dims.world(), 16);
  Plan cpu = Make("", {.name = "local"});
  EXPECT_EQ(cpu.dims.world(), 1);
  EXPECT_FALSE(cpu.on_gpus);
  EXPECT_EQ(Make("", {.name = "local"}, {.ranks_per_node = 2}).dims.dp_shard, 2);
}

TEST(Plan, PlacesRanksOnNodesAndNvlinkDomains) {
  Plan plan = Make("distributed: {tp_size: 4}", Gpus(4, 4, 8));
  EXPECT_EQ(plan.ranks[5].node, 1);
  EXPECT_EQ(plan.ranks[5].local_rank, 1);
  EXPECT_EQ(plan.ranks[5].nvlink_domain, 0);
  EXPECT_EQ(plan.ranks[8].nvlink_domain, 1);
  EXPECT_EQ(FabricOf(plan, MeshAxis::kTp), "nvlink");
  EXPECT_EQ(FabricOf(plan, MeshAxis::kDpShard), "network");
  EXPECT_EQ(FabricOf(plan, MeshAxis::kPp), "none");
}

TEST(Plan, DdpCopiesTheModelToEveryRank) {
  Plan plan = Make("distributed: {strategy: ddp}", Gpus(1, 4, 4));
  EXPECT_EQ(plan.dims.dp(), 4);
  EXPECT_EQ(ToJson(plan, {})["fsdp_shard_size"], 1);
}

TEST(Plan, ReplicatesAndShardsUnderHsdp) {
  Plan plan = Make("distributed: {dp_replicate_size: 2}", Gpus(2, 4, 4));
  EXPECT_EQ(plan.dims.dp_replicate, 2);
  EXPECT_EQ(plan.dims.dp_shard, 4);
  EXPECT_EQ(FabricOf(plan, MeshAxis::kDpShard), "nvlink");
  EXPECT_EQ(FabricOf(plan, MeshAxis::kDpReplicate), "network");
}

TEST(Plan, CutsThePipelineByItsSchedule) {
  model::ModelConfig model{.num_hidden_layers = 16};
  std::string base = "step_scheduler: {local_batch_size: 8, global_batch_size: 64}\n";
  Plan single = Make(base + "distributed: {pp_size: 4, pipeline: {pp_schedule: 1F1B}}",
                     Gpus(1, 8, 8), {.model = model});
  EXPECT_EQ(single.virtual_stages, 1);
  EXPECT_EQ(single.micro_batch_size, 1);
  Plan interleaved = Make(base +
                              "distributed: {pp_size: 4, pipeline: {pp_schedule: "
                              "interleaved1f1b, layers_per_stage: 2, pp_microbatch_size: 2}}",
                          Gpus(1, 8, 8), {.model = model});
  EXPECT_EQ(interleaved.virtual_stages, 2);
  EXPECT_EQ(interleaved.micro_batch_size, 2);
}

TEST(Plan, JsonHasTheNamesThatOthersReadBy) {
  nlohmann::json json = ToJson(Make("", Gpus(2, 8, 8)), {});
  for (const char* name : {"world_size",
                           "nodes",
                           "gpus_per_node",
                           "dp_size",
                           "dp_replicate",
                           "dp_shard",
                           "tp_size",
                           "cp_size",
                           "pp_size",
                           "ep_size",
                           "ep_shard",
                           "virtual_stages",
                           "global_batch_size",
                           "local_batch_size",
                           "micro_batch_size",
                           "grad_acc_steps",
                           "seq_length",
                           "tokens_per_step",
                           "parameters",
                           "active_parameters",
                           "flops_convention",
                           "model_flops_per_step",
                           "predicted_step_time_s",
                           "predicted_tokens_per_s",
                           "predicted_tflops_per_gpu",
                           "memory_gib",
                           "ranks",
                           "axes",
                           "reasons",
                           "diagnostics"}) {
    EXPECT_TRUE(json.contains(name)) << name;
  }
  EXPECT_EQ(json["ranks"].size(), 16u);
  for (const char* name : {"rank", "node", "local_rank", "nvlink_domain", "pp", "dp_replicate",
                           "dp_shard", "cp", "tp", "ep", "ep_shard"}) {
    EXPECT_TRUE(json["ranks"][0].contains(name)) << name;
  }
}

TEST(Plan, WithoutAClusterOnlyWhatNoMachineCouldMeetIsRefused) {
  EXPECT_TRUE(
      CheckWithoutCluster(testing::SmallRecipe("distributed: {ep_size: 8, cp_size: 2}")).empty());
  recipe::Diagnostics out = CheckWithoutCluster(
      testing::SmallRecipe("distributed: {ep_size: 8}\nstep_scheduler: {global_batch_size: 12}"));
  ASSERT_EQ(out.size(), 1u);
  EXPECT_EQ(out[0].message, "12 is not divisible by local_batch_size 1 · dp_size 8 = 8");
}

TEST(Plan, EstimatesWhereTheModelIsKnownAndIsNullWhereItIsNot) {
  recipe::Recipe recipe = testing::BenchmarkRecipe(
      "meta-llama/Llama-3.1-8B", "step_scheduler: {global_batch_size: 64, max_steps: 100}");
  Cluster cluster = testing::ClusterOf("dgx-h100");
  PlanResult known = MakePlan(
      recipe, cluster, {.nodes = 1, .model = testing::KnownModel("meta-llama/Llama-3.1-8B")});
  ASSERT_TRUE(known.plan) << recipe::RenderText(known.diagnostics);
  nlohmann::json json = ToJson(*known.plan, {});
  EXPECT_EQ(json["parameters"], 8'030'261'248);
  EXPECT_EQ(json["tokens_per_step"], 64 * 4096);
  EXPECT_EQ(json["steps"], 100);
  EXPECT_EQ(json["flops_convention"], "current");
  double seconds = json["predicted_step_time_s"];
  EXPECT_GT(seconds, 0);
  EXPECT_NEAR(json["predicted_tflops_per_gpu"],
              json["model_flops_per_step"].get<double>() / seconds / 8 / 1e12, 1e-6);
  EXPECT_NEAR(json["days"], 100 * seconds / 86'400, 1e-9);
  for (const char* part :
       {"parameters", "gradients", "optimizer", "activations", "total", "limit"}) {
    EXPECT_GT(json["memory_gib"][part], 0) << part;
  }

  PlanResult unknown = MakePlan(recipe, cluster, {.nodes = 1});
  ASSERT_TRUE(unknown.plan);
  json = ToJson(*unknown.plan, {});
  for (const char* name :
       {"parameters", "active_parameters", "model_flops_per_step", "predicted_step_time_s",
        "predicted_tokens_per_s", "predicted_tflops_per_gpu", "flops_convention"}) {
    EXPECT_TRUE(json[name].is_null()) << name;
  }
  EXPECT_TRUE(json["memory_gib"]["total"].is_null());
  ASSERT_EQ(json["unknown"].size(), 1u);
  EXPECT_NE(json["unknown"][0].get<std::string>().find("name a directory"), std::string::npos);
}

TEST(Plan, WritesTheJsonThatItHas) {
  Plan plan = Make("distributed: {tp_size: 4}", Gpus(4, 4, 8));
  std::ostringstream out;
  WriteJson(out, plan, {});
  EXPECT_EQ(nlohmann::json::parse(out.str()), ToJson(plan, {}));
}

TEST(Plan, RefusesAdaptersThatMatchNothingByTheNamesThereAre) {
  recipe::Recipe recipe =
      testing::BenchmarkRecipe("meta-llama/Llama-3.1-8B", "peft: {target_modules: [query]}");
  PlanResult result =
      MakePlan(recipe, testing::ClusterOf("dgx-h100"),
               {.nodes = 1, .model = testing::KnownModel("meta-llama/Llama-3.1-8B")});
  EXPECT_FALSE(result.plan);
  ASSERT_TRUE(recipe::HasErrors(result.diagnostics));
  std::string text = recipe::RenderText(result.diagnostics);
  EXPECT_NE(text.find("self_attn.q_proj"), std::string::npos) << text;
}

TEST(Plan, WarnsWhereItDoesNotFitAndTellsTheCure) {
  recipe::Recipe recipe = testing::BenchmarkRecipe("meta-llama/Llama-3.1-70B", "");
  PlanResult result =
      MakePlan(recipe, testing::ClusterOf("dgx-h100"),
               {.nodes = 1, .model = testing::KnownModel("meta-llama/Llama-3.1-70B")});
  ASSERT_TRUE(result.plan);
  EXPECT_FALSE(result.plan->estimates.memory->fits());
  EXPECT_NE(recipe::RenderText(result.diagnostics).find("warning: distributed: the fullest rank"),
            std::string::npos)
      << recipe::RenderText(result.diagnostics);
}

TEST(Plan, TakesMillisecondsForSixteenThousandGpus) {
  recipe::Recipe recipe = testing::BenchmarkRecipe(
      "deepseek-ai/DeepSeek-V3",
      "step_scheduler: {global_batch_size: 16384}\ndistributed: {ep_size: 64}");
  PlanOptions options{.nodes = 2048, .model = testing::KnownModel("deepseek-ai/DeepSeek-V3")};
  Cluster cluster = testing::ClusterOf("dgx-h100");
  auto begin = std::chrono::steady_clock::now();
  PlanResult result = MakePlan(recipe, cluster, options);
  ASSERT_TRUE(result.plan) << recipe::RenderText(result.diagnostics);
  std::ostringstream out;
  WriteJson(out, *result.plan, result.diagnostics);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  RecordProperty("milliseconds", static_cast<int>(seconds * 1e3));
  EXPECT_LT(seconds, 2) << "a bound that slow machines meet; a tenth of a second is meant";
  EXPECT_EQ(result.plan->ranks.size(), 16'384u);
}

}  // namespace
}  // namespace am::plan

#include "launcher/plan/plan.h"

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

}  // namespace
}  // namespace am::plan

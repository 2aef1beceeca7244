#include "launcher/plan/cluster.h"

#include <gtest/gtest.h>

#include "launcher/plan/machine.h"

namespace am::plan {
namespace {

Machine TwoCores() { return {.cores = 2, .memory_gib = 8}; }

TEST(Cluster, LocalIsWhatTheProbeFound) {
  auto cluster = FindCluster("local", TwoCores);
  ASSERT_TRUE(cluster.ok());
  EXPECT_FALSE(cluster->has_gpus());
  EXPECT_EQ(cluster->node.cpu_cores, 2);
  auto gpus = FindCluster("local", [] {
    return Machine{.cores = 64, .memory_gib = 512, .gpus = {{"H100", 80}, {"H100", 80}}};
  });
  EXPECT_EQ(gpus->node.gpus, 2);
  EXPECT_EQ(gpus->node.gpu, "H100");
}

TEST(Cluster, BuiltInNamesWorkWithoutAFile) {
  std::vector<std::string> names = BuiltInClusters();
  EXPECT_EQ(names.front(), "local");
  for (const std::string& name : names) {
    auto cluster = FindCluster(name, TwoCores);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    EXPECT_EQ(cluster->name, name);
  }
  auto rack = FindCluster("gb200-nvl72", TwoCores);
  EXPECT_EQ(rack->nodes * rack->node.gpus, 72);
  EXPECT_EQ(rack->node.nvlink_domain_gpus, 72);
}

TEST(Cluster, RefusesUnknownNamesAndBrokenFiles) {
  EXPECT_EQ(FindCluster("dgx-h101", TwoCores).status().message(),
            "cluster dgx-h101: neither a file nor a built-in cluster; use local, dgx-h100, "
            "gb200-nvl72 or the path of a YAML file");
  EXPECT_EQ(ParseCluster("name: x\nnodes: 2\nnode: {gpu: 8}\n", "c.yaml").status().message(),
            "c.yaml: error: node.gpus: missing; say how many GPUs a node has");
  EXPECT_EQ(
      ParseCluster("nodes: 0\nnode: {gpus: 8, gpu_memory: 80}\n", "c.yaml").status().message(),
      "c.yaml:1:8: error: nodes: expected an integer of at least 1, got 0\n"
      "c.yaml:2:17: error: node.gpu_memory: unknown key; did you mean gpu_memory_gib?");
}

TEST(Machine, ThisOneHasACoreAndMemory) {
  Machine machine = ProbeMachine();
  EXPECT_GE(machine.cores, 1);
  EXPECT_GT(machine.memory_gib, 0);
}

}  // namespace
}  // namespace am::plan

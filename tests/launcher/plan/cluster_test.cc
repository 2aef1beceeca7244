#include "launcher/plan/cluster.h"

#include <gtest/gtest.h>

#include "launcher/plan/machine.h"
#include "tests/launcher/golden_cases.h"

namespace am::plan {
namespace {

Machine TwoCores() { return {.cores = 2, .memory_gib = 8}; }

MachineProbe With(int gpus, const std::string& name) {
  return [=] {
    Machine machine{.cores = 64, .memory_gib = 512};
    machine.gpus.assign(static_cast<size_t>(gpus), {.name = name});
    return machine;
  };
}

TEST(Cluster, LocalIsWhatTheProbeFound) {
  auto cluster = FindCluster("local", TwoCores);
  ASSERT_TRUE(cluster.ok());
  EXPECT_FALSE(cluster->has_gpus());
  EXPECT_EQ(cluster->node.cpu_cores, 2);
  auto gpus = FindCluster("local", [] {
    return Machine{.cores = 64, .memory_gib = 512, .gpus = {{"Some GPU", 80}, {"Some GPU", 80}}};
  });
  EXPECT_EQ(gpus->node.gpus, 2);
  EXPECT_EQ(gpus->node.gpu, "Some GPU");
  EXPECT_EQ(gpus->node.memory_limit_gib(), 80);
}

TEST(Cluster, LocalGpusOfAKnownNameHaveTheFactsOfTheBuiltInCluster) {
  struct Case {
    const char* name;
    const char* gpu;
    double bf16;
    double limit;
    int domain;
  };
  for (const Case& c : std::vector<Case>{{"NVIDIA H100 80GB HBM3", "H100-SXM", 989, 79.1, 4},
                                         {"NVIDIA H200", "H200-SXM", 989, 139.7, 4},
                                         {"NVIDIA B200", "B200", 2250, 178.3, 4},
                                         {"NVIDIA GB200", "GB200", 2500, 184.3, 4},
                                         {"NVIDIA A100-SXM4-80GB", "A100-SXM-80GB", 312, 79.1, 4},
                                         {"NVIDIA L40S", "L40S", 362, 44.4, 0}}) {
    ClusterResult local = LoadCluster("local", With(4, c.name));
    ASSERT_TRUE(local.cluster) << c.name;
    EXPECT_TRUE(local.diagnostics.empty()) << recipe::RenderText(local.diagnostics);
    const NodeShape& node = local.cluster->node;
    EXPECT_EQ(node.gpus, 4);
    EXPECT_EQ(node.gpu, c.gpu);
    EXPECT_EQ(node.peak_tflops("bfloat16"), c.bf16) << c.name;
    EXPECT_EQ(node.memory_limit_gib(), c.limit) << c.name;
    EXPECT_EQ(node.nvlink_domain_gpus, c.domain) << c.name;
    EXPECT_EQ(node.cpu_cores, 64);
  }
  // Only a whole name counts: the PCIe card has another speed.
  ClusterResult other = LoadCluster("local", With(1, "NVIDIA H100 PCIe"));
  EXPECT_EQ(other.cluster->node.peak_tflops_bf16, 0);
  EXPECT_EQ(
      recipe::RenderText(other.diagnostics, {.least = recipe::Severity::kInfo}),
      "info: nothing is known of the speed of NVIDIA H100 PCIe; write a cluster file with its "
      "facts for estimates of time\n");
}

TEST(Cluster, GpusOfSeveralKindsInThisMachineAreToldOf) {
  ClusterResult local = LoadCluster("local", [] {
    return Machine{.gpus = {{"NVIDIA H200"}, {"NVIDIA L40S"}}};
  });
  EXPECT_EQ(
      recipe::RenderText(local.diagnostics),
      "warning: this machine has GPUs of several kinds, NVIDIA H200 and NVIDIA L40S; the plan "
      "takes all of them for the first; choose those of one kind with CUDA_VISIBLE_DEVICES "
      "and --gpus-per-node\n");
}

TEST(Cluster, BuiltInNamesWorkWithoutAFile) {
  std::vector<std::string> names = BuiltInClusters();
  EXPECT_EQ(names.front(), "local");
  EXPECT_EQ(names.size(), 8u);
  for (const std::string& name : names) {
    ClusterResult result = LoadCluster(name, TwoCores);
    ASSERT_TRUE(result.cluster) << recipe::RenderText(result.diagnostics);
    EXPECT_TRUE(result.diagnostics.empty());
    EXPECT_EQ(result.cluster->name, name);
    if (name == "local") continue;
    // Enough for every estimate.
    const NodeShape& node = result.cluster->node;
    for (const char* dtype : {"bf16", "fp16", "tf32", "fp32"}) {
      EXPECT_GT(node.peak_tflops(dtype), 0) << name << " " << dtype;
    }
    EXPECT_GT(node.gpu_memory_gib, node.memory_limit_gib()) << name;
    EXPECT_GT(node.gpu_memory_gb_per_s, 0) << name;
    EXPECT_GT(node.network_gb_per_s, 0) << name;
    EXPECT_EQ(node.nvlink_gb_per_s > 0, node.has_nvlink()) << name;
    EXPECT_TRUE(node.has_nvlink() || node.pcie_gb_per_s > 0) << name;
    EXPECT_GT(node.cpu_cores, 0) << name;
    EXPECT_FALSE(node.price_per_gpu_hour) << name;
  }
  auto rack = FindCluster("gb200-nvl72", TwoCores);
  EXPECT_EQ(rack->nodes * rack->node.gpus, 72);
  EXPECT_EQ(rack->node.nvlink_domain_gpus, 72);
  EXPECT_EQ(rack->domain_nodes(), 18);
  EXPECT_EQ(rack->node.peak_tflops("mxfp8"), 5000);
  EXPECT_EQ(FindCluster("gb200-nvl72-16", TwoCores)->domain_nodes(), 16);
  EXPECT_EQ(FindCluster("dgx-a100", TwoCores)->node.peak_tflops("fp8"), 0);
  EXPECT_EQ(FindCluster("dgx-h100", TwoCores)->domain_nodes(), 1);
}

TEST(Cluster, PriceAndLabelsAreTheUsers) {
  auto cluster = ParseCluster(
      "node: {gpus: 8, price_per_gpu_hour: 2.5, labels: {site: north, row: 7}}\n", "mine.yaml");
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(cluster->name, "mine");
  EXPECT_EQ(cluster->node.price_per_gpu_hour, 2.5);
  EXPECT_EQ(cluster->node.labels,
            (std::map<std::string, std::string>{{"row", "7"}, {"site", "north"}}));
}

constexpr char kRacks[] = R"(
node: {gpus: 4, gpu: GB200, nvlink_domain_gpus: 72}
node_list: node[001-036]
nvlink_domains:
  rack1: node[001-018]
node_labels:
  node[019-034]: {nvidia.com/gpu.clique: 5b2cab8e-6d1c-4d3f-9c56-0d6a8ddc4a5f.32766}
  node035: {nvidia.com/gpu.clique: 00000000-0000-0000-0000-000000000000.0}
  node[001-036]: {network.topology/ib-partition: "0x8001"}
)";

// Fault G5: an unknown domain is one of its own, and a partition of the network is none.
TEST(Cluster, NodesOfUnknownNvlinkDomainAreDomainsOfTheirOwn) {
  ClusterResult result = ReadCluster(kRacks, "racks.yaml");
  ASSERT_TRUE(result.cluster) << recipe::RenderText(result.diagnostics);
  const Cluster& cluster = *result.cluster;
  EXPECT_EQ(cluster.nodes, 36);
  EXPECT_EQ(cluster.hosts.front(), "node001");
  ASSERT_EQ(cluster.nvlink_domains.size(), 4u);
  EXPECT_EQ(cluster.nvlink_domains[0].name, "rack1");
  EXPECT_EQ(cluster.nvlink_domains[0].nodes, 18);
  EXPECT_EQ(cluster.nvlink_domains[1].name, "5b2cab8e-6d1c-4d3f-9c56-0d6a8ddc4a5f.32766");
  EXPECT_EQ(cluster.nvlink_domains[1].nodes, 16);
  EXPECT_EQ(cluster.nvlink_domains[2].name, "node035");
  EXPECT_FALSE(cluster.nvlink_domains[2].known);
  EXPECT_EQ(cluster.nvlink_domains[3].name, "node036");
  EXPECT_EQ(cluster.domain_of_host[17], 0);
  EXPECT_EQ(cluster.domain_of_host[18], 1);
  EXPECT_EQ(cluster.domain_of_host[35], 3);
}

TEST(Cluster, NodesMayBeAListOfHostLists) {
  auto cluster = ParseCluster(
      "node: {gpus: 4, nvlink_domain_gpus: 8}\n"
      "node_list: [\"a[1-2]\", b7]\n"
      "nvlink_domains: {left: [a1, a2]}\n",
      "c.yaml");
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  EXPECT_EQ(cluster->hosts, (std::vector<std::string>{"a1", "a2", "b7"}));
  EXPECT_EQ(cluster->nvlink_domains[0].nodes, 2);
  EXPECT_FALSE(cluster->nvlink_domains[1].known);
}

TEST(Cluster, UnknownNamesAreRefusedWithTheNearest) {
  EXPECT_EQ(recipe::RenderText(LoadCluster("dgx-h101", TwoCores).diagnostics),
            "error: cluster dgx-h101: neither a file nor a built-in cluster; did you mean "
            "dgx-h100? Known: local, dgx-a100, dgx-b200, dgx-h100, dgx-h200, "
            "gb200-nvl72-16, gb200-nvl72, l40s or the path of a YAML file\n");
}

// Each file of clusters_broken gives the diagnostics beside it.
TEST(Cluster, BrokenFilesAreRefusedAtThePlaceWithTheCure) {
  std::vector<testing::GoldenCase> cases =
      testing::ReadCases("tests/launcher/plan/clusters_broken");
  EXPECT_GE(cases.size(), 12u);
  for (const testing::GoldenCase& golden : cases) {
    ClusterResult result = ReadCluster(golden.text, golden.name());
    testing::ExpectDiagnostics(golden, result.diagnostics);
    EXPECT_FALSE(result.diagnostics.empty()) << golden.name();
    EXPECT_EQ(result.cluster.has_value(), !recipe::HasErrors(result.diagnostics)) << golden.name();
  }
}

TEST(Machine, ThisOneHasACoreAndMemory) {
  Machine machine = ProbeMachine();
  EXPECT_GE(machine.cores, 1);
  EXPECT_GT(machine.memory_gib, 0);
}

TEST(Machine, GpusAreReadFromNvidiaSmi) {
  std::vector<Machine::Gpu> gpus =
      ParseNvidiaSmi("NVIDIA H200, 143771\nNVIDIA GB10, [N/A]\nNo devices were found\n\n");
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].name, "NVIDIA H200");
  EXPECT_NEAR(gpus[0].memory_gib, 140.4, 0.01);
  EXPECT_EQ(gpus[1].name, "NVIDIA GB10");
  EXPECT_EQ(gpus[1].memory_gib, 0);
}

TEST(Machine, ContainersLimitCores) {
  EXPECT_EQ(ParseCpuMax("200000 100000"), 2.0);
  EXPECT_EQ(ParseCpuMax("50000 100000"), 0.5);
  EXPECT_FALSE(ParseCpuMax("max 100000"));
  EXPECT_FALSE(ParseCpuMax(""));
}

}  // namespace
}  // namespace am::plan

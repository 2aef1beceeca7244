#include "launcher/plan/placement.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>

namespace am::plan {
namespace {

Cluster BuiltIn(const std::string& name) {
  auto cluster = FindCluster(name, [] { return Machine(); });
  EXPECT_TRUE(cluster.ok()) << cluster.status();
  return *cluster;
}

std::string Fabrics(const Placement& placement) {
  std::string out;
  for (const PlannedAxis& axis : placement.axes) {
    if (axis.size == 1) continue;
    out += (out.empty() ? "" : " ") + std::string(Name(axis.axis)) + "=" + axis.fabric;
    if (axis.groups_cut > 0) {
      out += "(" + std::to_string(axis.groups_cut) + "/" + std::to_string(axis.groups) + ")";
    }
  }
  return out;
}

std::string Notes(const Placement& placement) {
  std::string out;
  for (const PlacementNote& note : placement.notes) {
    out += std::string(recipe::Name(note.severity)) + ": " + note.key + ": " + note.message + "; " +
           note.hint + "\n";
  }
  return out;
}

struct Layout {
  const char* cluster;
  int nodes;
  ParallelDims dims;
  const char* fabrics;
  int segment = 1;
  int domains = 1;
};

void Check(const std::vector<Layout>& layouts) {
  for (const Layout& c : layouts) {
    Cluster cluster = BuiltIn(c.cluster);
    const int per_node = cluster.node.gpus;
    std::string name = std::string(c.cluster) + " × " + std::to_string(c.nodes) + " tp " +
                       std::to_string(c.dims.tp) + " ep " + std::to_string(c.dims.ep);
    ASSERT_EQ(c.dims.world(), c.nodes * per_node) << name;
    Placement placement = Place(c.dims, cluster, c.nodes, per_node);
    EXPECT_EQ(Fabrics(placement), c.fabrics) << name;
    EXPECT_EQ(placement.segment_nodes, c.segment) << name;
    EXPECT_EQ(placement.nvlink_domains, c.domains) << name;
    ASSERT_EQ(static_cast<int>(placement.ranks.size()), c.dims.world());
    for (const PlannedRank& rank : placement.ranks) {
      EXPECT_EQ(rank.node * per_node + rank.local_rank, rank.rank);
    }
  }
}

TEST(Placement, OnNodesOfEightTpStaysInTheNodeAndTheRestCrosses) {
  Check({
      {"dgx-h100", 1, {.dp_shard = 8}, "dp_shard=nvlink"},
      {"dgx-h100", 1, {.dp_shard = 1, .tp = 8}, "tp=nvlink"},
      {"dgx-h100", 1, {.dp_shard = 8, .ep = 8}, "dp_shard=nvlink ep=nvlink"},
      {"dgx-h100", 2, {.dp_shard = 4, .tp = 4}, "dp_shard=network(4/4) tp=nvlink", 1, 2},
      {"dgx-h100",
       2,
       {.dp_replicate = 2, .dp_shard = 8},
       "dp_replicate=network(8/8) dp_shard=nvlink",
       1,
       2},
      {"dgx-h100",
       2,
       {.dp_shard = 2, .cp = 2, .tp = 4},
       "dp_shard=network(8/8) cp=nvlink tp=nvlink",
       1,
       2},
      {"dgx-h100",
       4,
       {.pp = 4, .dp_shard = 2, .tp = 4},
       "pp=network(8/8) dp_shard=nvlink tp=nvlink",
       1,
       4},
      {"dgx-h100",
       8,
       {.dp_shard = 64, .ep = 8},
       "dp_shard=network(1/1) ep=nvlink ep_shard=network(8/8)",
       1,
       8},
      {"dgx-h100",
       32,
       {.pp = 4, .dp_shard = 64, .ep = 64},
       "pp=network(64/64) dp_shard=network(4/4) ep=network(4/4)",
       1,
       32},
      {"dgx-h100",
       128,
       {.pp = 8, .dp_shard = 128, .ep = 64},
       "pp=network(128/128) dp_shard=network(8/8) ep=network(16/16) ep_shard=network(512/512)",
       1,
       128},
      {"dgx-h100",
       2048,
       {.pp = 8, .dp_replicate = 4, .dp_shard = 64, .cp = 1, .tp = 8},
       "pp=network(2048/2048) dp_replicate=network(4096/4096) dp_shard=network(256/256) tp=nvlink",
       1,
       2048},
      // Without NVLink the node is what there is.
      {"l40s", 1, {.dp_shard = 4, .tp = 2}, "dp_shard=host tp=host"},
      {"l40s", 2, {.dp_shard = 8, .tp = 2}, "dp_shard=network(2/2) tp=host", 1, 2},
  });
}

TEST(Placement, OnRacksExpertsStayInTheNvlinkDomain) {
  Check({
      // 18 trays.
      {"gb200-nvl72", 16, {.dp_shard = 64, .ep = 64}, "dp_shard=nvlink ep=nvlink", 16},
      {"gb200-nvl72", 18, {.dp_shard = 72, .ep = 72}, "dp_shard=nvlink ep=nvlink", 18},
      {"gb200-nvl72", 2, {.dp_shard = 1, .tp = 8}, "tp=nvlink", 2},
      {"gb200-nvl72", 8, {.dp_shard = 32, .ep = 8}, "dp_shard=nvlink ep=nvlink ep_shard=nvlink", 2},
      // Two segments of eight a rack, two trays left alone: four racks for 64 nodes, two for 32.
      {"gb200-nvl72",
       32,
       {.dp_shard = 128, .ep = 32},
       "dp_shard=network(1/1) ep=nvlink ep_shard=network(32/32)",
       8,
       2},
      {"gb200-nvl72",
       64,
       {.pp = 2, .dp_shard = 128, .ep = 64},
       "pp=network(128/128) dp_shard=network(2/2) ep=nvlink ep_shard=network(128/128)",
       16,
       4},
      {"gb200-nvl72",
       36,
       {.pp = 2, .dp_shard = 72, .ep = 72},
       "pp=network(72/72) dp_shard=nvlink ep=nvlink",
       18,
       2},
      // No ep: contiguous.
      {"gb200-nvl72",
       36,
       {.dp_replicate = 2, .dp_shard = 72},
       "dp_replicate=network(72/72) dp_shard=nvlink",
       1,
       2},
      {"gb200-nvl72",
       36,
       {.dp_shard = 18, .cp = 2, .tp = 4},
       "dp_shard=network(8/8) cp=nvlink tp=nvlink",
       2,
       2},
      // 16 trays used.
      {"gb200-nvl72-16",
       64,
       {.pp = 2, .dp_shard = 128, .ep = 64},
       "pp=network(128/128) dp_shard=network(2/2) ep=nvlink ep_shard=network(128/128)",
       16,
       4},
      {"gb200-nvl72-16",
       4096,
       {.pp = 16, .dp_shard = 1024, .ep = 64},
       "pp=network(1024/1024) dp_shard=network(16/16) ep=nvlink ep_shard=network(1024/1024)",
       16,
       256},
      {"gb200-nvl72",
       4096,
       {.pp = 16, .dp_shard = 256, .tp = 4, .ep = 64},
       "pp=network(1024/1024) dp_shard=network(64/64) tp=nvlink ep=nvlink ep_shard=network(1024/"
       "1024)",
       16,
       256},
  });
}

TEST(Placement, WarnsWithTheCostAndTheCureWhereAFastAxisLeavesItsDomain) {
  struct Case {
    const char* cluster;
    int nodes;
    int per_node;
    ParallelDims dims;
    const char* notes;
    int nodes_there = 0;  // 0: as many as the job takes
  };
  for (const Case& c : std::vector<Case>{
           {"dgx-h100",
            2,
            8,
            {.dp_shard = 1, .tp = 16},
            "warning: distributed.tp_size: 16: a group takes 16 ranks, more than the 8 of one "
            "NVLink domain: its exchanges run at 50 GB/s instead of 450 GB/s: about 9 times "
            "slower; use "
            "tp_size 1, 2, 4 or 8\n"},
           {"dgx-h100",
            3,
            8,
            {.dp_shard = 4, .tp = 6},
            "warning: distributed.tp_size: 6: 2 of its 4 groups are cut across NVLink domains: "
            "their "
            "exchanges run at 50 GB/s instead of 450 GB/s: about 9 times slower; use tp_size 1 or "
            "2, or "
            "--gpus-per-node 6\n"},
           {"dgx-h100", 3, 6, {.dp_shard = 3, .tp = 6}, ""},
           {"dgx-h100",
            32,
            8,
            {.pp = 4, .dp_shard = 64, .ep = 64},
            "info: distributed.ep_size: 64: a group takes 64 ranks, more than the 8 of one NVLink "
            "domain: its exchanges run at 50 GB/s instead of 450 GB/s: about 9 times slower; use "
            "ep_size 1, "
            "2, 4 or 8\n"},
           {"dgx-a100",
            2,
            8,
            {.dp_shard = 1, .cp = 2, .tp = 8},
            "info: distributed.cp_size: 2: a group takes 16 ranks, more than the 8 of one NVLink "
            "domain: its exchanges run at 25 GB/s instead of 300 GB/s: about 12 times slower; use "
            "cp_size "
            "1\n"},
           {"l40s",
            2,
            8,
            {.dp_shard = 1, .tp = 16},
            "warning: distributed.tp_size: 16: a group takes 16 ranks, more than the 8 of one "
            "node: its "
            "exchanges run at 6.25 GB/s instead of 32 GB/s: about 5 times slower; use tp_size 1, "
            "2, 4 or "
            "8\n"},
           // Nine groups of four nodes on two racks of eighteen: four a rack, and one is cut.
           {"gb200-nvl72",
            36,
            4,
            {.dp_shard = 144, .ep = 16},
            "warning: distributed.ep_size: 16: 1 of its 9 groups is cut across NVLink domains: its "
            "exchanges run at 50 GB/s instead of 900 GB/s: about 18 times slower; use ep_size 1, "
            "2, 4 or 8, "
            "or --nodes 32\n",
            36},
           {"gb200-nvl72", 36, 4, {.dp_shard = 144, .ep = 8}, ""},
       }) {
    Cluster cluster = BuiltIn(c.cluster);
    if (c.nodes_there > 0) cluster.nodes = c.nodes_there;
    Placement placement = Place(c.dims, cluster, c.nodes, c.per_node);
    EXPECT_EQ(Notes(placement), c.notes) << c.cluster << " × " << c.nodes;
  }
}

TEST(Placement, SaysWhichSegmentToAskSlurmFor) {
  Cluster racks = BuiltIn("gb200-nvl72");
  EXPECT_EQ(Place({.dp_shard = 128, .ep = 32}, racks, 32, 4).segment_reason,
            "segments of 8 nodes (ep 32) lie in one NVLink domain each: ask Slurm for --segment=8 "
            "(23.11 or newer, block topology)");
  EXPECT_EQ(Place({.dp_shard = 64, .ep = 32}, racks, 16, 4).segment_reason,
            "segments of 8 nodes (ep 32) lie in one NVLink domain each: ask Slurm for --segment=8; "
            "all 16 nodes are laid out in one NVLink domain, which holds with --segment=16 "
            "(23.11 or newer, block topology)");
  EXPECT_EQ(Place({.dp_shard = 144, .ep = 16}, racks, 36, 4).segment_reason,
            "segments of 4 nodes (ep 16) lie in one NVLink domain each: ask Slurm for --segment=4; "
            "the 36 nodes then lie in 3 domains (23.11 or newer, block topology)");
  EXPECT_EQ(Place({.dp_shard = 64}, racks, 16, 4).segment_reason,
            "all 16 nodes are laid out in one NVLink domain: ask Slurm for --segment=16 (23.11 or "
            "newer, block topology)");
  EXPECT_EQ(Place({.dp_shard = 4}, racks, 1, 4).segment_reason, "");
  EXPECT_EQ(Place({.dp_shard = 64, .ep = 8}, BuiltIn("dgx-h100"), 8, 8).segment_reason, "");
}

// Fault G5: two racks of eighteen, one node without a label; EP 32 takes eight nodes of four GPUs.
TEST(Placement, KeepsExpertsTogetherAmongRacksWithAnUnlabelledNode) {
  auto cluster = ParseCluster(R"(
node: {gpus: 4, nvlink_domain_gpus: 72, nvlink_gb_per_s: 900, network_gb_per_s: 50}
node_list: node[001-036]
node_labels:
  node[001-018]: {nvidia.com/gpu.clique: 5b2cab8e-6d1c-4d3f-9c56-0d6a8ddc4a5f.1}
  node[019-035]: {nvidia.com/gpu.clique: 5b2cab8e-6d1c-4d3f-9c56-0d6a8ddc4a5f.2}
)",
                              "racks.yaml");
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  // 32 nodes: two segments from each rack, none with the node of which nothing is known.
  Placement placement = Place({.dp_shard = 128, .ep = 32}, *cluster, 32, 4);
  EXPECT_EQ(placement.segment_nodes, 8);
  EXPECT_EQ(Fabrics(placement), "dp_shard=network(1/1) ep=nvlink ep_shard=network(32/32)");
  EXPECT_EQ(Notes(placement), "");
  EXPECT_EQ(placement.nvlink_domains, 2);
  ASSERT_EQ(placement.hosts.size(), 32u);
  EXPECT_EQ(placement.hosts[0], "node001");
  EXPECT_EQ(placement.hosts[15], "node016");
  EXPECT_EQ(placement.hosts[16], "node019");
  EXPECT_EQ(placement.ranks[16 * 4].nvlink_domain, 1);
  // All 36, four nodes a group: each rack keeps four groups, and the last one gets what is left.
  placement = Place({.dp_shard = 144, .ep = 16}, *cluster, 36, 4);
  EXPECT_EQ(std::set<std::string>(placement.hosts.begin(), placement.hosts.end()).size(), 36u);
  EXPECT_EQ(
      Notes(placement),
      "warning: distributed.ep_size: 16: 1 of its 9 groups is cut across NVLink domains: its "
      "exchanges run at 50 GB/s instead of 900 GB/s: about 18 times slower; use ep_size 1, 2 or 4, "
      "or "
      "--nodes 32\n"
      "warning: : the NVLink domain of node036 is not known: it counts as one of its own; "
      "name it under nvlink_domains of the cluster file, or label it nvidia.com/gpu.clique\n");
  // Nine segments of four would wait for ever: they are not asked for.
  EXPECT_EQ(placement.segment_nodes, 1);
  EXPECT_EQ(placement.segment_reason, "");
  // A job that fits one rack takes the smaller one that holds it.
  placement = Place({.dp_shard = 68}, *cluster, 17, 4);
  EXPECT_EQ(placement.hosts.front(), "node019");
  EXPECT_EQ(placement.nvlink_domains, 1);
}

TEST(Placement, NvlinkMayJoinPartsOfANode) {
  Cluster pairs{.name = "bridged", .node = {.gpus = 4, .nvlink_domain_gpus = 2}};
  Placement placement = Place({.dp_shard = 2, .tp = 2}, pairs, 1, 4);
  EXPECT_EQ(Fabrics(placement), "dp_shard=host(2/2) tp=nvlink");
  EXPECT_EQ(placement.ranks[2].nvlink_domain, 1);
  EXPECT_EQ(Notes(Place({.dp_shard = 1, .tp = 4}, pairs, 1, 4)),
            "warning: distributed.tp_size: 4: a group takes 4 ranks, more than the 2 of one NVLink "
            "domain: its exchanges run on the host; use tp_size 1 or 2\n");
}

TEST(Placement, RefusesMoreMachinesThanThereAre) {
  auto refusal = [](const Cluster& cluster, int nodes, int per_node) {
    recipe::Diagnostics out;
    bool fine = CheckMachines(cluster, nodes, per_node, out);
    EXPECT_EQ(fine, out.empty());
    return recipe::RenderText(out);
  };
  EXPECT_EQ(refusal(BuiltIn("dgx-h100"), 4, 8), "");
  EXPECT_EQ(refusal(BuiltIn("dgx-h100"), 4, 9),
            "error: 9 ranks a node, but a node of dgx-h100 has 8 GPUs; use at most 8\n");
  EXPECT_EQ(refusal(BuiltIn("dgx-h100"), 0, 8),
            "error: 0 nodes of 8 ranks; both must be 1 or more\n");
  auto named = ParseCluster("node: {gpus: 8}\nnode_list: dgx[1-3]\n", "mine.yaml");
  EXPECT_EQ(refusal(*named, 4, 8),
            "error: 4 nodes, but node_list of mine names 3; use at most 3, or name more\n");
}

TEST(Placement, TakesMillisecondsForSixteenThousandGpus) {
  Cluster racks = BuiltIn("gb200-nvl72");
  ParallelDims dims{.pp = 8, .dp_replicate = 2, .dp_shard = 256, .tp = 4, .ep = 32};
  ASSERT_EQ(dims.world(), 16'384);
  Place(dims, racks, 4096, 4);
  auto start = std::chrono::steady_clock::now();
  Placement placement = Place(dims, racks, 4096, 4);
  auto took = std::chrono::steady_clock::now() - start;
  RecordProperty("microseconds", static_cast<int>(took / std::chrono::microseconds(1)));
  EXPECT_EQ(placement.ranks.size(), 16'384u);
  // Generous: sanitizers and busy machines are slower by far.
  EXPECT_LT(took, std::chrono::milliseconds(500));
}

}  // namespace
}  // namespace am::plan

#include "launcher/plan/device_mesh.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace am::plan {
namespace {

using Groups = std::vector<std::vector<int>>;

TEST(DeviceMesh, TpIsFastestAndPpSlowest) {
  DeviceMesh mesh({.pp = 2, .dp_replicate = 2, .dp_shard = 2, .cp = 2, .tp = 2});
  ASSERT_EQ(mesh.dims().world(), 32);
  for (int rank = 0; rank < 32; ++rank) {
    MeshPlace p = mesh.At(rank);
    EXPECT_EQ((((p.pp * 2 + p.dp_replicate) * 2 + p.dp_shard) * 2 + p.cp) * 2 + p.tp, rank);
  }
  EXPECT_EQ(mesh.At(1).tp, 1);
  EXPECT_EQ(mesh.At(16).pp, 1);
}

TEST(DeviceMesh, GroupsOfAnAxisPartTheRanks) {
  DeviceMesh mesh({.pp = 2, .dp_replicate = 1, .dp_shard = 2, .cp = 1, .tp = 2, .ep = 2});
  EXPECT_EQ(mesh.Groups(MeshAxis::kTp), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(mesh.Groups(MeshAxis::kDpShard), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(mesh.Groups(MeshAxis::kPp), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  for (MeshAxis axis : kMeshAxes) {
    std::set<int> seen;
    for (const std::vector<int>& group : mesh.Groups(axis)) {
      EXPECT_EQ(static_cast<int>(group.size()), mesh.Size(axis)) << Name(axis);
      seen.insert(group.begin(), group.end());
    }
    EXPECT_EQ(seen.size(), 8u) << Name(axis);
  }
}

TEST(DeviceMesh, ExpertGroupsAreContiguousWithinAStage) {
  DeviceMesh mesh({.pp = 2, .dp_replicate = 1, .dp_shard = 4, .cp = 1, .tp = 1, .ep = 2});
  EXPECT_EQ(mesh.Groups(MeshAxis::kEp), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(mesh.Groups(MeshAxis::kEpShard), (Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  EXPECT_EQ(mesh.At(6).ep, 0);
  EXPECT_EQ(mesh.At(6).ep_shard, 1);
}

// By their definition: ranks with equal places but for the axis.
Groups GroupsByPlace(const DeviceMesh& mesh, MeshAxis axis) {
  std::map<std::vector<int>, std::vector<int>> groups;
  for (int rank = 0; rank < mesh.dims().world(); ++rank) {
    MeshPlace p = mesh.At(rank);
    std::vector<int> rest = {p.pp, p.dp_replicate, p.dp_shard, p.cp, p.tp};
    if (axis == MeshAxis::kEp) rest = {p.pp, p.ep_shard};
    if (axis == MeshAxis::kEpShard) rest = {p.pp, p.ep};
    if (axis == MeshAxis::kPp) rest[0] = 0;
    if (axis == MeshAxis::kDpReplicate) rest[1] = 0;
    if (axis == MeshAxis::kDpShard) rest[2] = 0;
    if (axis == MeshAxis::kCp) rest[3] = 0;
    if (axis == MeshAxis::kTp) rest[4] = 0;
    groups[rest].push_back(rank);
  }
  Groups out;
  for (auto& [rest, ranks] : groups) out.push_back(ranks);
  std::sort(out.begin(), out.end());
  return out;
}

TEST(DeviceMesh, GroupsAreTheRanksThatDifferInTheAxisAlone) {
  for (const ParallelDims& dims : std::vector<ParallelDims>{
           {.dp_shard = 8, .ep = 4},
           {.pp = 2, .dp_replicate = 2, .dp_shard = 3, .cp = 2, .tp = 4, .ep = 6},
           {.pp = 3, .dp_replicate = 2, .dp_shard = 4, .cp = 3, .tp = 2, .ep = 12},
           {.pp = 4, .dp_replicate = 1, .dp_shard = 16, .cp = 1, .tp = 8, .ep = 16}}) {
    DeviceMesh mesh(dims);
    for (MeshAxis axis : kMeshAxes) {
      Groups groups = mesh.Groups(axis);
      EXPECT_TRUE(std::is_sorted(groups.begin(), groups.end()));
      EXPECT_EQ(groups, GroupsByPlace(mesh, axis)) << Name(axis);
    }
  }
}

}  // namespace
}  // namespace am::plan

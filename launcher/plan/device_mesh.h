// DeviceMesh: named axes over the ranks, in the order (pp, dp_replicate, dp_shard, cp, tp), tp
// fastest, and the rank groups they give. Expert groups are cut from a pipeline stage: local index
// k is expert rank k % ep and expert shard k / ep.
//   DeviceMesh mesh(dims);
//   mesh.At(5).tp;  mesh.Groups(MeshAxis::kTp) == {{0, 1}, {2, 3}, …}
#pragma once

#include <string_view>
#include <vector>

#include "launcher/plan/parallel_dims.h"

namespace am::plan {

enum class MeshAxis { kPp, kDpReplicate, kDpShard, kCp, kTp, kEp, kEpShard };

inline constexpr MeshAxis kMeshAxes[] = {
    MeshAxis::kPp, MeshAxis::kDpReplicate, MeshAxis::kDpShard, MeshAxis::kCp,
    MeshAxis::kTp, MeshAxis::kEp,          MeshAxis::kEpShard};

std::string_view Name(MeshAxis axis);  // "pp", "dp_replicate", …

struct MeshPlace {
  int pp = 0, dp_replicate = 0, dp_shard = 0, cp = 0, tp = 0, ep = 0, ep_shard = 0;
  bool operator==(const MeshPlace&) const = default;
};

class DeviceMesh {
 public:
  explicit DeviceMesh(const ParallelDims& dims) : dims_(dims) {}

  const ParallelDims& dims() const { return dims_; }
  int Size(MeshAxis axis) const;
  // Ranks between neighbours of a group. So group g of an axis is the ranks base, base + stride, …
  // with base = g / stride * (size * stride) + g % stride.
  int Stride(MeshAxis axis) const;
  MeshPlace At(int rank) const;
  // The ranks that differ in this axis alone, each group in the axis's order. Together they are all
  // ranks.
  std::vector<std::vector<int>> Groups(MeshAxis axis) const;

 private:
  ParallelDims dims_;
};

}  // namespace am::plan

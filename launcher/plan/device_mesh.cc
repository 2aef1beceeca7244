#include "launcher/plan/device_mesh.h"

namespace am::plan {

std::string_view Name(MeshAxis axis) {
  switch (axis) {
    case MeshAxis::kPp:
      return "pp";
    case MeshAxis::kDpReplicate:
      return "dp_replicate";
    case MeshAxis::kDpShard:
      return "dp_shard";
    case MeshAxis::kCp:
      return "cp";
    case MeshAxis::kTp:
      return "tp";
    case MeshAxis::kEp:
      return "ep";
    case MeshAxis::kEpShard:
      return "ep_shard";
  }
  return "";
}

int DeviceMesh::Size(MeshAxis axis) const {
  switch (axis) {
    case MeshAxis::kPp:
      return dims_.pp;
    case MeshAxis::kDpReplicate:
      return dims_.dp_replicate;
    case MeshAxis::kDpShard:
      return dims_.dp_shard;
    case MeshAxis::kCp:
      return dims_.cp;
    case MeshAxis::kTp:
      return dims_.tp;
    case MeshAxis::kEp:
      return dims_.ep;
    case MeshAxis::kEpShard:
      return dims_.ep_shard();
  }
  return 1;
}

MeshPlace DeviceMesh::At(int rank) const {
  int stage = dims_.dp() * dims_.cp * dims_.tp;  // ranks of a pipeline stage
  int local = rank % stage;
  MeshPlace place;
  place.pp = rank / stage;
  place.tp = local % dims_.tp;
  place.cp = local / dims_.tp % dims_.cp;
  place.dp_shard = local / (dims_.tp * dims_.cp) % dims_.dp_shard;
  place.dp_replicate = local / (dims_.tp * dims_.cp * dims_.dp_shard);
  if (dims_.ep > 1) {
    place.ep = local % dims_.ep;
    place.ep_shard = local / dims_.ep;
  }
  return place;
}

int DeviceMesh::Stride(MeshAxis axis) const {
  switch (axis) {
    case MeshAxis::kTp:
    case MeshAxis::kEp:
      return 1;
    case MeshAxis::kCp:
      return dims_.tp;
    case MeshAxis::kDpShard:
      return dims_.tp * dims_.cp;
    case MeshAxis::kDpReplicate:
      return dims_.tp * dims_.cp * dims_.dp_shard;
    case MeshAxis::kPp:
      return dims_.tp * dims_.cp * dims_.dp();
    case MeshAxis::kEpShard:
      return dims_.ep;
  }
  return 1;
}

std::vector<std::vector<int>> DeviceMesh::Groups(MeshAxis axis) const {
  int size = Size(axis), stride = Stride(axis);
  std::vector<std::vector<int>> groups(static_cast<size_t>(dims_.world() / size));
  for (int g = 0; g < static_cast<int>(groups.size()); ++g) {
    std::vector<int>& group = groups[static_cast<size_t>(g)];
    group.reserve(static_cast<size_t>(size));
    int base = g / stride * (size * stride) + g % stride;
    for (int i = 0; i < size; ++i) group.push_back(base + i * stride);
  }
  return groups;
}

}  // namespace am::plan

#include "launcher/plan/device_mesh.h"

#include <map>
#include <tuple>

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

std::vector<std::vector<int>> DeviceMesh::Groups(MeshAxis axis) const {
  bool expert = axis == MeshAxis::kEp || axis == MeshAxis::kEpShard;
  // Ranks with equal places but for the axis are a group; ranks come in order, so does the axis.
  std::map<std::tuple<int, int, int, int, int>, std::vector<int>> groups;
  for (int rank = 0; rank < dims_.world(); ++rank) {
    MeshPlace p = At(rank);
    if (expert) {
      // Without experts each rank is a group of its own.
      int rest = dims_.ep == 1 ? rank : axis == MeshAxis::kEp ? p.ep_shard : p.ep;
      groups[{p.pp, rest, 0, 0, 0}].push_back(rank);
      continue;
    }
    auto but = [&](MeshAxis other, int index) { return other == axis ? 0 : index; };
    groups[{but(MeshAxis::kPp, p.pp), but(MeshAxis::kDpReplicate, p.dp_replicate),
            but(MeshAxis::kDpShard, p.dp_shard), but(MeshAxis::kCp, p.cp),
            but(MeshAxis::kTp, p.tp)}]
        .push_back(rank);
  }
  std::vector<std::vector<int>> out;
  for (auto& [rest, ranks] : groups) out.push_back(std::move(ranks));
  return out;
}

}  // namespace am::plan

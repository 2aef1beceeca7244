// Placement: which node, GPU and NVLink domain each rank gets, the link that each axis of the mesh
// then runs on, and what to change where a fast axis leaves its domain. Pure; a few milliseconds
// for 16,384 ranks.
//
//   Placement placement = Place(dims, cluster, /*nodes=*/32, /*ranks_per_node=*/4);
//   placement.axes[5].fabric;        // ep: "nvlink"
//   placement.segment_nodes;         // 8: `sbatch --segment=8`
//
// Ranks go to nodes in order, ranks_per_node each. TP groups are to stay in a node, EP and CP
// groups in an NVLink domain; the smallest run of nodes that holds whole groups of theirs is a
// segment. Domains are filled with whole segments; nodes that are left over in a domain come last,
// and what lies on them may be cut.
#pragma once

#include <string>
#include <vector>

#include "launcher/plan/cluster.h"
#include "launcher/plan/device_mesh.h"
#include "launcher/recipe/diagnostic.h"

namespace am::plan {

struct PlannedRank {
  int rank = 0;
  int node = 0;
  int local_rank = 0;
  int nvlink_domain = 0;  // = node where there is no NVLink
  MeshPlace place;
};

struct PlannedAxis {
  MeshAxis axis = MeshAxis::kPp;
  int size = 1;
  // The slowest link within its groups: "none" (size 1), "nvlink", "host" (PCIe or shared memory),
  // "network".
  std::string fabric;
  double gb_per_s = 0;      // of that link, per GPU and direction; 0: not known, or none needed
  int groups = 1;           // how many there are
  int groups_cut = 0;       // of them leave an NVLink domain (a node where there is none)
  int ranks_in_domain = 1;  // the most ranks of one group that share a domain
};

// Something to say about an axis at its key of the recipe.
struct PlacementNote {
  // kWarning: the layout could have kept the axis on its fast link. kInfo: it could not.
  recipe::Severity severity = recipe::Severity::kWarning;
  std::string key;  // "distributed.tp_size"; empty: of the cluster
  std::string message;
  std::string hint;
};

struct Placement {
  std::vector<PlannedRank> ranks;  // by rank
  std::vector<PlannedAxis> axes;   // as kMeshAxes
  std::vector<PlacementNote> notes;
  // Nodes that must lie in one NVLink domain, each run of so many: what to ask of Slurm's block
  // topology with --segment. 1: nothing to ask, or more than there is.
  int segment_nodes = 1;
  std::string segment_reason;      // one line; empty where there is nothing to ask
  std::vector<std::string> hosts;  // by node; empty where the cluster does not name its nodes
  int nvlink_domains = 0;          // that the nodes lie in; the nodes where there is no NVLink
};

// Whether the cluster has so many nodes and GPUs; `out` says what it has.
bool CheckMachines(const Cluster& cluster, int nodes, int ranks_per_node, recipe::Diagnostics& out);

// Of dims with as many ranks as the machines, which have been checked.
Placement Place(const ParallelDims& dims, const Cluster& cluster, int nodes, int ranks_per_node);

}  // namespace am::plan

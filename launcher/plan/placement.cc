#include "launcher/plan/placement.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "launcher/plan/arithmetic.h"

namespace am::plan {
namespace {

constexpr int64_t kMostRanks = 1 << 20;
constexpr size_t kMostNamedHosts = 4;  // in a note

// What the layout is put on: NVLink domains as numbers of nodes. Where an NVLink domain is a part
// of a node, or there is none, each node is one of its own.
struct Site {
  const Cluster& cluster;
  int nodes;
  int ranks_per_node;
  std::vector<int> domains;  // nodes that each has

  int LargestDomain() const { return *std::max_element(domains.begin(), domains.end()); }
  // The most ranks that lie on fast links of each other.
  int FastRanks() const {
    const NodeShape& node = cluster.node;
    if (node.has_nvlink() && node.nvlink_domain_gpus < node.gpus) {
      return std::min(ranks_per_node, node.nvlink_domain_gpus);
    }
    return LargestDomain() * ranks_per_node;
  }
  // Nodes that hold whole groups of `block` ranks, none cut.
  int64_t SegmentOf(int64_t block) const {
    return std::lcm(block, int64_t{ranks_per_node}) / ranks_per_node;
  }
  // How many nodes there are for whole segments.
  int64_t RoomFor(int64_t segment) const {
    int64_t room = 0;
    for (int domain : domains) room += domain / segment * segment;
    return room;
  }
  // Whether no group of `block` contiguous ranks need leave its domain.
  bool Holds(int64_t block, int64_t on_nodes) const {
    if (FastRanks() < ranks_per_node) return block <= FastRanks() && FastRanks() % block == 0;
    return RoomFor(SegmentOf(block)) >= on_nodes;
  }
};

Site SiteOf(const Cluster& cluster, int nodes, int ranks_per_node) {
  Site site{.cluster = cluster, .nodes = nodes, .ranks_per_node = ranks_per_node};
  if (!cluster.nvlink_domains.empty()) {
    for (const Cluster::NvlinkDomain& domain : cluster.nvlink_domains) {
      site.domains.push_back(domain.nodes);
    }
    return site;
  }
  int size = cluster.domain_nodes();
  for (int left = std::max(nodes, cluster.nodes); left > 0; left -= size) {
    site.domains.push_back(std::min(left, size));
  }
  return site;
}

// The fast axes as the contiguous ranks that their groups take, the fastest first.
std::vector<int64_t> FastBlocks(const ParallelDims& dims) {
  return {dims.tp, dims.ep, int64_t{dims.cp} * dims.tp};
}

// The smallest run of nodes that holds whole groups of each fast axis, as far as a domain can.
int SegmentNodes(const ParallelDims& dims, const Site& site) {
  int64_t ranks = 1;
  for (int64_t block : FastBlocks(dims)) {
    int64_t both = std::lcm(ranks, block);
    if (site.SegmentOf(both) <= site.LargestDomain()) ranks = both;
  }
  int64_t segment = site.SegmentOf(ranks);
  return segment <= site.LargestDomain() ? static_cast<int>(segment) : 1;
}

// The domain of each node of the job, in order. The smallest domain that holds all of them; else
// large ones first, in whole segments; what is left over in them comes last.
std::vector<int> ChooseDomains(const Site& site, int segment) {
  std::vector<int> order(site.domains.size());
  std::iota(order.begin(), order.end(), 0);
  auto size = [&](int domain) { return site.domains[static_cast<size_t>(domain)]; };
  std::vector<int> chosen;
  chosen.reserve(static_cast<size_t>(site.nodes));
  int best = -1;
  for (int domain : order) {
    if (size(domain) >= site.nodes && (best < 0 || size(domain) < size(best))) best = domain;
  }
  if (best >= 0) {
    chosen.assign(static_cast<size_t>(site.nodes), best);
    return chosen;
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return size(a) > size(b); });
  auto take = [&](int domain, int count) {
    count = std::min(count, site.nodes - static_cast<int>(chosen.size()));
    chosen.insert(chosen.end(), static_cast<size_t>(count), domain);
  };
  for (int domain : order) take(domain, size(domain) / segment * segment);
  for (int domain : order) take(domain, size(domain) % segment);
  return chosen;
}

std::vector<std::string> HostsOf(const Cluster& cluster, const std::vector<int>& domains) {
  std::vector<std::vector<size_t>> free(cluster.nvlink_domains.size());
  for (size_t host = cluster.hosts.size(); host-- > 0;) {
    free[static_cast<size_t>(cluster.domain_of_host[host])].push_back(host);
  }
  std::vector<std::string> hosts;
  if (cluster.hosts.empty()) return hosts;
  for (int domain : domains) {
    std::vector<size_t>& left = free[static_cast<size_t>(domain)];
    hosts.push_back(cluster.hosts[left.back()]);
    left.pop_back();
  }
  return hosts;
}

std::vector<PlannedRank> PlaceRanks(const ParallelDims& dims, const Site& site,
                                    const std::vector<int>& domain_of_node) {
  DeviceMesh mesh(dims);
  const NodeShape& node = site.cluster.node;
  bool parts = node.has_nvlink() && node.nvlink_domain_gpus < node.gpus;
  std::vector<PlannedRank> ranks;
  ranks.reserve(static_cast<size_t>(dims.world()));
  for (int rank = 0; rank < dims.world(); ++rank) {
    PlannedRank placed{.rank = rank,
                       .node = rank / site.ranks_per_node,
                       .local_rank = rank % site.ranks_per_node,
                       .place = mesh.At(rank)};
    placed.nvlink_domain = domain_of_node[static_cast<size_t>(placed.node)];
    if (parts) {
      int per_node = (node.gpus + node.nvlink_domain_gpus - 1) / node.nvlink_domain_gpus;
      placed.nvlink_domain = placed.node * per_node + placed.local_rank / node.nvlink_domain_gpus;
    } else if (!node.has_nvlink()) {
      placed.nvlink_domain = placed.node;
    }
    ranks.push_back(placed);
  }
  return ranks;
}

PlannedAxis DescribeAxis(MeshAxis axis, const DeviceMesh& mesh, const Site& site,
                         const std::vector<PlannedRank>& ranks) {
  const NodeShape& node = site.cluster.node;
  const int size = mesh.Size(axis), stride = mesh.Stride(axis);
  const int groups = mesh.dims().world() / size;
  PlannedAxis described{.axis = axis, .size = size, .fabric = "none", .groups = groups};
  if (size == 1) return described;
  bool one_node = true;
  for (int g = 0; g < groups; ++g) {
    const size_t base = static_cast<size_t>(g / stride) * size * stride + g % stride;
    const PlannedRank& first = ranks[base];
    bool cut = false;
    int together = 0, domain = first.nvlink_domain;
    for (int i = 0; i < size; ++i) {
      const PlannedRank& rank = ranks[base + static_cast<size_t>(i) * stride];
      one_node = one_node && rank.node == first.node;
      cut = cut || rank.nvlink_domain != first.nvlink_domain;
      together = rank.nvlink_domain == domain ? together + 1 : 1;
      domain = rank.nvlink_domain;
      described.ranks_in_domain = std::max(described.ranks_in_domain, together);
    }
    described.groups_cut += cut ? 1 : 0;
  }
  if (described.groups_cut == 0 && node.has_nvlink()) {
    described.fabric = "nvlink";
    described.gb_per_s = node.nvlink_gb_per_s;
  } else if (one_node) {
    described.fabric = "host";
    described.gb_per_s = node.pcie_gb_per_s;
  } else {
    described.fabric = "network";
    described.gb_per_s = node.network_gb_per_s;
  }
  return described;
}

}  // namespace

bool CheckMachines(const Cluster& cluster, int nodes, int ranks_per_node,
                   recipe::Diagnostics& out) {
  auto refuse = [&](std::string message, std::string hint) {
    out.push_back({.message = std::move(message), .hint = std::move(hint)});
    return false;
  };
  if (nodes < 1 || ranks_per_node < 1 || int64_t{nodes} * ranks_per_node > kMostRanks) {
    return refuse(absl::StrCat(nodes, " nodes of ", ranks_per_node, " ranks"),
                  "both must be 1 or more");
  }
  if (cluster.has_gpus() && ranks_per_node > cluster.node.gpus) {
    return refuse(absl::StrCat(ranks_per_node, " ranks a node, but a node of ", cluster.name,
                               " has ", cluster.node.gpus, " GPUs"),
                  absl::StrCat("use at most ", cluster.node.gpus));
  }
  if (!cluster.hosts.empty() && nodes > static_cast<int>(cluster.hosts.size())) {
    return refuse(absl::StrCat(nodes, " nodes, but node_list of ", cluster.name, " names ",
                               cluster.hosts.size()),
                  absl::StrCat("use at most ", cluster.hosts.size(), ", or name more"));
  }
  return true;
}

Placement Place(const ParallelDims& dims, const Cluster& cluster, int nodes, int ranks_per_node) {
  Placement placement;
  const Site site = SiteOf(cluster, nodes, ranks_per_node);
  placement.segment_nodes = SegmentNodes(dims, site);
  std::vector<int> domains = ChooseDomains(site, placement.segment_nodes);
  placement.hosts = HostsOf(cluster, domains);
  placement.ranks = PlaceRanks(dims, site, domains);
  DeviceMesh mesh(dims);
  for (MeshAxis axis : kMeshAxes) {
    placement.axes.push_back(DescribeAxis(axis, mesh, site, placement.ranks));
  }
  return placement;
}

}  // namespace am::plan

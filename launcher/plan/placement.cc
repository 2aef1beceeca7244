#include "launcher/plan/placement.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "common/check.h"
#include "launcher/plan/arithmetic.h"
#include "launcher/plan/host_list.h"

namespace am::plan {
namespace {

constexpr int64_t kMostRanks = 1 << 20;

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

// An axis that exchanges activations inside every layer, the greediest first, and the contiguous
// ranks that a group of it takes for each of its size.
struct FastAxis {
  MeshAxis axis;
  int size;
  int64_t ranks_each = 1;
  const char* key;  // of the recipe

  int64_t block() const { return size * ranks_each; }
};

std::vector<FastAxis> FastAxes(const ParallelDims& dims) {
  return {{MeshAxis::kTp, dims.tp, 1, "tp_size"},
          {MeshAxis::kEp, dims.ep, 1, "ep_size"},
          {MeshAxis::kCp, dims.cp, dims.tp, "cp_size"}};
}

// The smallest run of nodes that holds whole groups of each fast axis, as far as a domain can.
int SegmentNodes(const ParallelDims& dims, const Site& site) {
  int64_t ranks = 1;
  for (const FastAxis& axis : FastAxes(dims)) {
    int64_t both = std::lcm(ranks, axis.block());
    if (site.SegmentOf(both) <= site.LargestDomain()) ranks = both;
  }
  int64_t segment = site.SegmentOf(ranks);
  return segment <= site.LargestDomain() ? static_cast<int>(segment) : 1;
}

// The domains that the cluster has. Where the job takes more nodes than its file says there are,
// as many whole domains as its segments need.
Site SiteOf(const ParallelDims& dims, const Cluster& cluster, int nodes, int ranks_per_node) {
  Site site{.cluster = cluster, .nodes = nodes, .ranks_per_node = ranks_per_node};
  for (const Cluster::NvlinkDomain& domain : cluster.nvlink_domains) {
    site.domains.push_back(domain.nodes);
  }
  if (!site.domains.empty()) return site;
  const int size = cluster.domain_nodes();
  if (nodes <= cluster.nodes) {
    for (int left = cluster.nodes; left > 0; left -= size) {
      site.domains.push_back(std::min(left, size));
    }
    return site;
  }
  site.domains = {size};
  int segment = SegmentNodes(dims, site);
  int each = size / segment * segment;
  site.domains.assign(static_cast<size_t>((nodes + each - 1) / each), size);
  return site;
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
  AM_CHECK(static_cast<int>(chosen.size()) == site.nodes);
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

// "run at 50 GB/s instead of 450 GB/s: about 9 times slower".
std::string CostOf(const PlannedAxis& axis, const NodeShape& node) {
  double fast = node.has_nvlink() ? node.nvlink_gb_per_s : node.pcie_gb_per_s;
  std::string cost = absl::StrCat("run on the ", axis.fabric);
  if (fast <= 0 || axis.gb_per_s <= 0) return cost;
  double times = fast / axis.gb_per_s;
  return absl::StrFormat("run at %g GB/s instead of %g GB/s: about %.*f times slower",
                         axis.gb_per_s, fast, times < 3 ? 1 : 0, times);
}

// The most nodes, of at most `site.nodes`, that the same degrees can take without a group cut.
int FewerNodes(const ParallelDims& dims, const Site& site, int64_t segment) {
  for (int64_t nodes = std::min<int64_t>(site.RoomFor(segment), site.nodes); nodes > 0;
       nodes -= segment) {
    int64_t model = int64_t{dims.tp} * dims.cp * dims.pp, world = nodes * site.ranks_per_node;
    if (world % model != 0) continue;
    int64_t dp = world / model;
    if (dp % dims.dp_replicate == 0 && dp * dims.cp % dims.ep == 0) return static_cast<int>(nodes);
  }
  return 0;
}

std::string CureOf(const FastAxis& axis, const ParallelDims& dims, const Site& site) {
  std::vector<int64_t> legal;
  for (int64_t size : DivisorsOf(axis.size)) {
    if (size < axis.size && site.Holds(size * axis.ranks_each, site.nodes)) legal.push_back(size);
  }
  std::string cure = absl::StrCat("use ", axis.key, " ", OrList(legal));
  if (axis.block() > site.FastRanks()) return cure;
  int64_t segment = site.SegmentOf(axis.block());
  if (segment <= site.LargestDomain()) {
    int nodes = FewerNodes(dims, site, segment);
    if (nodes > 0 && nodes < site.nodes) absl::StrAppend(&cure, ", or --nodes ", nodes);
  } else if (axis.block() < site.ranks_per_node) {
    absl::StrAppend(&cure, ", or --gpus-per-node ",
                    site.ranks_per_node / axis.block() * axis.block());
  }
  return cure;
}

std::optional<PlacementNote> NoteOf(const FastAxis& axis, const PlannedAxis& placed,
                                    const ParallelDims& dims, const Site& site) {
  if (placed.groups_cut == 0 || placed.fabric == "none") return std::nullopt;
  const NodeShape& node = site.cluster.node;
  const std::string domain = node.has_nvlink() ? "NVLink domain" : "node";
  const bool fits = axis.block() <= site.FastRanks();
  PlacementNote note{.key = absl::StrCat("distributed.", axis.key)};
  if (fits) {
    note.message =
        placed.groups == 1
            ? absl::StrCat(axis.size, ": its group is cut across ", domain, "s: its exchanges ")
            : absl::StrCat(axis.size, ": ", placed.groups_cut, " of its ", placed.groups,
                           placed.groups_cut == 1 ? " groups is" : " groups are", " cut across ",
                           domain,
                           placed.groups_cut == 1 ? "s: its exchanges " : "s: their exchanges ");
  } else {
    note.message =
        absl::StrCat(axis.size, ": a group takes ", axis.block(), " ranks, more than the ",
                     site.FastRanks(), " of one ", domain, ": its exchanges ");
  }
  note.message += CostOf(placed, node);
  // Experts and sequences may need more GPUs than a domain has; a tensor's shards seldom do.
  if (!fits && axis.axis != MeshAxis::kTp) note.severity = recipe::Severity::kInfo;
  note.hint = CureOf(axis, dims, site);
  return note;
}

// Nodes of the job of whose NVLink domain nothing is said.
std::optional<PlacementNote> NoteOfUnknown(const Site& site, const std::vector<int>& domains,
                                           const std::vector<std::string>& hosts) {
  if (site.nodes == 1 || site.cluster.domain_nodes() == 1) return std::nullopt;
  std::vector<std::string> unknown;
  for (size_t node = 0; node < hosts.size(); ++node) {
    auto domain = static_cast<size_t>(domains[node]);
    if (!site.cluster.nvlink_domains[domain].known) unknown.push_back(hosts[node]);
  }
  if (unknown.empty()) return std::nullopt;
  std::string names = CompressHostList(unknown);
  return PlacementNote{
      .message = absl::StrCat(
          "the NVLink domain of ", names, " is not known: ",
          unknown.size() == 1 ? "it counts as one of its own" : "each counts as one of its own"),
      .hint =
          "name it under nvlink_domains of the cluster file, or label it nvidia.com/gpu.clique"};
}

std::string SegmentReason(const ParallelDims& dims, const Site& site, int segment, int domains) {
  const bool together = domains == 1;
  if (site.cluster.domain_nodes() == 1 || site.nodes == 1) return "";
  std::string reason;
  if (segment > 1) {
    std::string axes;
    for (const FastAxis& axis : FastAxes(dims)) {
      if (axis.block() <= site.ranks_per_node || axis.block() > segment * site.ranks_per_node) {
        continue;
      }
      absl::StrAppend(&axes, axes.empty() ? "" : ", ", std::string(Name(axis.axis)), " ",
                      axis.size);
    }
    reason = absl::StrCat("segments of ", segment, " nodes (", axes, ") lie in one NVLink domain ",
                          "each: ask Slurm for --segment=", segment);
  }
  if (!together && segment > 1 && domains * site.LargestDomain() >= site.nodes + segment) {
    absl::StrAppend(&reason, "; the ", site.nodes, " nodes then lie in ", domains, " domains");
  }
  if (together && site.nodes > segment) {
    std::string all = absl::StrCat("all ", site.nodes, " nodes are laid out in one NVLink domain");
    absl::StrAppend(&reason, reason.empty() ? "" : "; ", all,
                    reason.empty() ? ": ask Slurm for --segment=" : ", which holds with --segment=",
                    site.nodes);
  }
  return reason.empty() ? reason : reason + " (23.11 or newer, block topology)";
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
  AM_CHECK(int64_t{nodes} * ranks_per_node == dims.world());
  Placement placement;
  const Site site = SiteOf(dims, cluster, nodes, ranks_per_node);
  const int segment = SegmentNodes(dims, site);
  std::vector<int> domains = ChooseDomains(site, segment);
  // A job whose segments do not all fit would wait for ever for what it asks.
  if (site.RoomFor(segment) >= nodes) placement.segment_nodes = segment;
  placement.hosts = HostsOf(cluster, domains);
  placement.ranks = PlaceRanks(dims, site, domains);
  DeviceMesh mesh(dims);
  for (MeshAxis axis : kMeshAxes) {
    placement.axes.push_back(DescribeAxis(axis, mesh, site, placement.ranks));
  }
  for (const FastAxis& axis : FastAxes(dims)) {
    const PlannedAxis& placed = placement.axes[static_cast<size_t>(axis.axis)];
    if (auto note = NoteOf(axis, placed, dims, site)) placement.notes.push_back(*std::move(note));
  }
  if (auto note = NoteOfUnknown(site, domains, placement.hosts)) {
    placement.notes.push_back(*std::move(note));
  }
  std::vector<int> distinct = domains;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  placement.nvlink_domains = static_cast<int>(distinct.size());
  placement.segment_reason =
      SegmentReason(dims, site, placement.segment_nodes, placement.nvlink_domains);
  return placement;
}

}  // namespace am::plan

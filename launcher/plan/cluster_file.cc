// A cluster file as a Cluster: its keys, and the rules between them.
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "launcher/plan/cluster.h"
#include "launcher/plan/host_list.h"
#include "launcher/recipe/bind.h"
#include "launcher/recipe/document.h"
#include "launcher/recipe/schema.h"

namespace am::plan {
namespace {

using recipe::Key;
using recipe::Section;
using recipe::Value;
using enum recipe::Type;

// What the GPU operator's feature discovery says of a node: its NVLink domain.
constexpr char kCliqueLabel[] = "nvidia.com/gpu.clique";

constexpr Key kNodeKeys[] = {
    {.name = "gpus",
     .type = kInt,
     .least = 0,
     .most = 1024,
     .means = "GPUs a node; 0: ranks run on the CPU"},
    {.name = "gpu", .nullable = true, .means = "type of the GPU"},
    {.name = "gpu_names", .type = kTexts, .means = "what its driver calls it"},
    {.name = "gpu_memory_gib", .type = kFloat, .nullable = true, .least = 0, .unit = "GiB"},
    {.name = "gpu_memory_limit_gib", .type = kFloat, .nullable = true, .least = 0, .unit = "GiB"},
    {.name = "gpu_memory_gb_per_s", .type = kFloat, .nullable = true, .least = 0, .unit = "GB/s"},
    {.name = "peak_tflops_bf16", .type = kFloat, .nullable = true, .least = 0, .unit = "TFLOP/s"},
    {.name = "peak_tflops_fp16", .type = kFloat, .nullable = true, .least = 0, .unit = "TFLOP/s"},
    {.name = "peak_tflops_tf32", .type = kFloat, .nullable = true, .least = 0, .unit = "TFLOP/s"},
    {.name = "peak_tflops_fp32", .type = kFloat, .nullable = true, .least = 0, .unit = "TFLOP/s"},
    {.name = "peak_tflops_fp8", .type = kFloat, .nullable = true, .least = 0, .unit = "TFLOP/s"},
    {.name = "peak_tflops_fp4", .type = kFloat, .nullable = true, .least = 0, .unit = "TFLOP/s"},
    {.name = "nvlink_domain_gpus", .type = kInt, .nullable = true, .least = 0, .most = 1 << 20},
    {.name = "nvlink_gb_per_s", .type = kFloat, .nullable = true, .least = 0, .unit = "GB/s"},
    {.name = "pcie_gb_per_s", .type = kFloat, .nullable = true, .least = 0, .unit = "GB/s"},
    {.name = "network_gb_per_s", .type = kFloat, .nullable = true, .least = 0, .unit = "GB/s"},
    {.name = "cpu_cores", .type = kInt, .nullable = true, .least = 0, .most = 1 << 20},
    {.name = "memory_gib", .type = kFloat, .nullable = true, .least = 0, .unit = "GiB"},
    {.name = "price_per_gpu_hour", .type = kFloat, .nullable = true, .least = 0},
    {.name = "labels", .type = kFree, .nullable = true},
};
constexpr Section kNodeSection = {.keys = kNodeKeys};
constexpr Key kClusterKeys[] = {
    {.name = "name", .means = "what the plan calls it"},
    {.name = "nodes",
     .type = kInt,
     .least = 1,
     .most = 1 << 20,
     .unit = "nodes",
     .means = "how many there are"},
    {.name = "node", .type = kSection, .section = &kNodeSection},
    {.name = "node_list", .type = kTexts, .means = "their names, a host list"},
    {.name = "nvlink_domains", .type = kFree, .means = "name of a domain: host list"},
    {.name = "node_labels", .type = kFree, .means = "host list: labels"},
};
constexpr Section kClusterSection = {.keys = kClusterKeys};

template <typename T, typename Field>
void Read(const Value& map, std::string_view key, Field& field) {
  const Value* value = map.Find(key);
  if (!value) return;
  if (const T* typed = std::get_if<T>(&value->data)) field = static_cast<Field>(*typed);
}

// "0fc3c8f5-…-9d21.32766": the cluster's UUID, 32 hexadecimal digits in groups, and the number of
// the clique within it.
bool IsCliqueId(std::string_view text) {
  size_t dot = text.find('.');
  if (dot != 36 || dot + 1 == text.size()) return false;
  for (size_t i = 0; i < dot; ++i) {
    bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? text[i] != '-' : !std::isxdigit(static_cast<unsigned char>(text[i]))) return false;
  }
  return text.find_first_not_of("0123456789", dot + 1) == std::string_view::npos;
}

// A node that has not joined a fabric has a UUID of zeros.
bool NamesNoClique(std::string_view text) {
  return text.substr(0, 36).find_first_not_of("0-") == std::string_view::npos;
}

class Reader {
 public:
  Reader(const Value& root, recipe::Diagnostics& out) : root_(root), out_(out) {}

  Cluster Run(const std::string& file) {
    Cluster cluster{.name = std::filesystem::path(file).stem().string()};
    Read<std::string>(root_, "name", cluster.name);
    Read<int64_t>(root_, "nodes", cluster.nodes);
    const Value* node = root_.Find("node");
    if (!node || !node->Find("gpus")) {
      out_.push_back({.place = node ? node->place : recipe::Place{.file = file},
                      .key = "node.gpus",
                      .message = "missing",
                      .hint = "say how many GPUs a node has"});
      return cluster;
    }
    cluster.node = Shape(*node);
    CheckShape(*node, cluster.node);
    Hosts(cluster);
    return cluster;
  }

 private:
  void Error(const Value& at, std::string key, std::string message, std::string hint,
             recipe::Severity severity = recipe::Severity::kError) {
    out_.push_back({.severity = severity,
                    .place = at.place,
                    .key = std::move(key),
                    .message = std::move(message),
                    .hint = std::move(hint)});
  }

  NodeShape Shape(const Value& node) {
    NodeShape shape;
    Read<int64_t>(node, "gpus", shape.gpus);
    Read<std::string>(node, "gpu", shape.gpu);
    Read<double>(node, "gpu_memory_gib", shape.gpu_memory_gib);
    Read<double>(node, "gpu_memory_limit_gib", shape.gpu_memory_limit_gib);
    Read<double>(node, "gpu_memory_gb_per_s", shape.gpu_memory_gb_per_s);
    Read<double>(node, "peak_tflops_bf16", shape.peak_tflops_bf16);
    Read<double>(node, "peak_tflops_fp16", shape.peak_tflops_fp16);
    Read<double>(node, "peak_tflops_tf32", shape.peak_tflops_tf32);
    Read<double>(node, "peak_tflops_fp32", shape.peak_tflops_fp32);
    Read<double>(node, "peak_tflops_fp8", shape.peak_tflops_fp8);
    Read<double>(node, "peak_tflops_fp4", shape.peak_tflops_fp4);
    Read<int64_t>(node, "nvlink_domain_gpus", shape.nvlink_domain_gpus);
    Read<double>(node, "nvlink_gb_per_s", shape.nvlink_gb_per_s);
    Read<double>(node, "pcie_gb_per_s", shape.pcie_gb_per_s);
    Read<double>(node, "network_gb_per_s", shape.network_gb_per_s);
    Read<int64_t>(node, "cpu_cores", shape.cpu_cores);
    Read<double>(node, "memory_gib", shape.memory_gib);
    if (const Value* price = node.Find("price_per_gpu_hour")) {
      if (const double* given = std::get_if<double>(&price->data)) {
        shape.price_per_gpu_hour = *given;
      }
    }
    if (const Value* names = node.Find("gpu_names")) shape.gpu_names = Texts(*names);
    if (const Value* labels = node.Find("labels"); labels && !labels->is_null()) {
      if (!labels->map()) {
        Error(*labels, "node.labels", "expected a map of texts", "write {rack: a1}");
      } else {
        for (const recipe::Entry& label : *labels->map()) {
          shape.labels[label.key] = label.value.text;
        }
      }
    }
    return shape;
  }

  static std::vector<std::string> Texts(const Value& value) {
    std::vector<std::string> texts;
    if (value.list()) {
      for (const Value& item : *value.list()) texts.push_back(item.text);
    } else if (!value.is_null()) {
      texts.push_back(value.text);
    }
    return texts;
  }

  void CheckShape(const Value& node, const NodeShape& shape) {
    const Value* domain = node.Find("nvlink_domain_gpus");
    const int size = shape.nvlink_domain_gpus;
    if (shape.gpus == 0 && size > 0) {
      Error(*domain, "node.nvlink_domain_gpus", absl::StrCat(size, ", but a node has no GPUs"),
            "set node.gpus, or leave it out");
    } else if (size > shape.gpus && size % shape.gpus != 0) {
      int below = size / shape.gpus * shape.gpus;
      Error(*domain, "node.nvlink_domain_gpus",
            absl::StrCat(size, " is no multiple of node.gpus ", shape.gpus,
                         ": a domain holds whole nodes"),
            absl::StrCat("use ", below, " or ", below + shape.gpus));
    } else if (size > 0 && size < shape.gpus && shape.gpus % size != 0) {
      Error(*domain, "node.nvlink_domain_gpus",
            absl::StrCat(size, " does not divide node.gpus ", shape.gpus),
            "use the GPUs that each of them reaches by NVLink, itself counted");
    }
    const Value* speed = node.Find("nvlink_gb_per_s");
    if (shape.nvlink_gb_per_s > 0 && size < 2) {
      Error(*speed, "node.nvlink_gb_per_s",
            "given, but not how many GPUs reach each other by NVLink",
            "set node.nvlink_domain_gpus");
    }
    const Value* limit = node.Find("gpu_memory_limit_gib");
    if (shape.gpu_memory_gib > 0 && shape.gpu_memory_limit_gib > shape.gpu_memory_gib) {
      Error(*limit, "node.gpu_memory_limit_gib",
            absl::StrCat(shape.gpu_memory_limit_gib, " is more than node.gpu_memory_gib ",
                         shape.gpu_memory_gib),
            "use what the CUDA runtime shows as total");
    }
    const Value* fp8 = node.Find("peak_tflops_fp8");
    if (shape.peak_tflops_fp8 > 0 && shape.peak_tflops_fp8 < shape.peak_tflops_bf16) {
      Error(*fp8, "node.peak_tflops_fp8",
            absl::StrCat(shape.peak_tflops_fp8, " is less than peak_tflops_bf16 ",
                         shape.peak_tflops_bf16),
            "use dense figures for both: data sheets often give those with sparsity, twice as much",
            recipe::Severity::kWarning);
    }
  }

  // The names of a host list, each error at its place in the file.
  std::vector<std::string> Expand(const Value& value, const std::string& key) {
    std::vector<std::string> hosts;
    auto add = [&](const Value& item) {
      if (item.list() || item.map() || item.is_null()) {
        Error(item, key, "expected a host list", "write node[001-018], or a list of those");
        return;
      }
      HostList list = ExpandHostList(item.text);
      if (list.error) {
        recipe::Diagnostic problem{
            .place = item.place,
            .key = key,
            .message = absl::StrCat(item.text.substr(0, 80), ": ", list.error->message),
            .hint = list.error->hint};
        problem.place.column += static_cast<int>(list.error->offset) + (item.quoted ? 1 : 0);
        out_.push_back(std::move(problem));
        return;
      }
      if (hosts.size() + list.hosts.size() > kMostHosts) {
        Error(item, key, absl::StrCat("more than ", kMostHosts, " nodes"), "");
        return;
      }
      hosts.insert(hosts.end(), list.hosts.begin(), list.hosts.end());
    };
    if (value.list()) {
      for (const Value& item : *value.list()) add(item);
    } else {
      add(value);
    }
    return hosts;
  }

  void Hosts(Cluster& cluster) {
    const Value* list = root_.Find("node_list");
    for (const char* key : {"nvlink_domains", "node_labels"}) {
      const Value* value = root_.Find(key);
      if (value && !value->map()) {
        Error(*value, key, "expected a map", "see docs/clusters.md");
      } else if (value && !list) {
        Error(*value, key, "given without node_list", "name the nodes: node_list: node[001-018]");
      }
    }
    if (!list) return;
    size_t errors = out_.size();
    cluster.hosts = Expand(*list, "node_list");
    for (size_t host = 0; host < cluster.hosts.size(); ++host) {
      if (!index_.try_emplace(cluster.hosts[host], host).second) {
        Error(*list, "node_list", absl::StrCat(cluster.hosts[host], " is named twice"),
              "name each node once");
        break;
      }
    }
    if (out_.size() > errors) return;
    if (cluster.hosts.empty()) {
      Error(*list, "node_list", "names no node", "write node[001-018], or leave it out");
      return;
    }
    const int count = static_cast<int>(cluster.hosts.size());
    if (const Value* nodes = root_.Find("nodes"); nodes && cluster.nodes != count) {
      Error(*nodes, "nodes", absl::StrCat(cluster.nodes, ", but node_list names ", count),
            "leave nodes out");
    }
    cluster.nodes = count;
    domain_.assign(cluster.hosts.size(), -1);
    NamedDomains(cluster);
    LabelledDomains(cluster);
    RestOfDomains(cluster);
  }

  // Puts a node into a domain; false where it is in another one.
  void Join(Cluster& cluster, size_t host, int domain, const Value& at, const std::string& key) {
    int& current = domain_[host];
    if (current >= 0) {
      Error(at, key,
            absl::StrCat(cluster.hosts[host], " is in ",
                         cluster.nvlink_domains[static_cast<size_t>(current)].name, " already"),
            "a node lies in one NVLink domain");
      return;
    }
    current = domain;
    ++cluster.nvlink_domains[static_cast<size_t>(domain)].nodes;
  }

  std::optional<size_t> IndexOf(const std::string& host, const Value& at, const std::string& key) {
    auto found = index_.find(host);
    if (found != index_.end()) return found->second;
    Error(at, key, absl::StrCat(host, " is not in node_list"),
          "add it there, or take it away here");
    return std::nullopt;
  }

  void NamedDomains(Cluster& cluster) {
    const Value* domains = root_.Find("nvlink_domains");
    if (!domains || !domains->map()) return;
    for (const recipe::Entry& entry : *domains->map()) {
      std::string key = absl::StrCat("nvlink_domains.", entry.key);
      int domain = static_cast<int>(cluster.nvlink_domains.size());
      cluster.nvlink_domains.push_back({.name = entry.key});
      for (const std::string& host : Expand(entry.value, key)) {
        std::optional<size_t> index = IndexOf(host, entry.value, key);
        if (index) Join(cluster, *index, domain, entry.value, key);
        if (recipe::HasErrors(out_)) break;
      }
      CheckSize(cluster, domain, entry.value, key);
    }
  }

  void LabelledDomains(Cluster& cluster) {
    const Value* labels = root_.Find("node_labels");
    if (!labels || !labels->map()) return;
    std::map<std::string, int> cliques;
    for (const recipe::Entry& entry : *labels->map()) {
      Value names{.data = entry.key, .place = entry.place, .text = entry.key};
      std::string key = absl::StrCat("node_labels.", entry.key);
      std::vector<std::string> hosts = Expand(names, key);
      if (!entry.value.map()) {
        Error(entry.value, key, "expected a map of labels",
              absl::StrCat("write {", kCliqueLabel, ": <clusterUUID>.<cliqueID>}"));
        continue;
      }
      const Value* clique = entry.value.Find(kCliqueLabel);
      if (!clique || clique->is_null()) {
        for (const std::string& host : hosts) {
          if (!IndexOf(host, names, key)) break;
        }
        continue;
      }
      std::string label = absl::StrCat(key, ".", kCliqueLabel);
      if (!IsCliqueId(clique->text)) {
        Error(*clique, label, absl::StrCat(clique->text.substr(0, 80), " is no clique id"),
              "write <clusterUUID>.<cliqueID> as `nvidia-smi -q` shows them under Fabric; an "
              "InfiniBand partition is not an NVLink domain");
        continue;
      }
      if (NamesNoClique(clique->text)) continue;
      auto [found, fresh] =
          cliques.try_emplace(clique->text, static_cast<int>(cluster.nvlink_domains.size()));
      if (fresh) cluster.nvlink_domains.push_back({.name = clique->text});
      for (const std::string& host : hosts) {
        std::optional<size_t> index = IndexOf(host, names, key);
        if (!index) break;
        // What nvlink_domains says of a node goes before its label.
        int current = domain_[*index];
        if (current >= 0 && !cliques.contains(NameOf(cluster, current))) continue;
        Join(cluster, *index, found->second, *clique, label);
        if (recipe::HasErrors(out_)) break;
      }
      CheckSize(cluster, found->second, *clique, label);
    }
  }

  static const std::string& NameOf(const Cluster& cluster, int domain) {
    return cluster.nvlink_domains[static_cast<size_t>(domain)].name;
  }

  void CheckSize(const Cluster& cluster, int domain, const Value& at, const std::string& key) {
    int nodes = cluster.nvlink_domains[static_cast<size_t>(domain)].nodes;
    if (recipe::HasErrors(out_) || nodes <= cluster.domain_nodes()) return;
    Error(at, key,
          absl::StrCat(nodes, " nodes of ", cluster.node.gpus, " GPUs are ",
                       nodes * cluster.node.gpus, ", but node.nvlink_domain_gpus is ",
                       cluster.node.nvlink_domain_gpus),
          cluster.domain_nodes() == 1
              ? "leave it out: here each node is a domain"
              : absl::StrCat("name at most ", cluster.domain_nodes(), " nodes a domain"));
  }

  // Where nothing is said of a node, it is not taken for a neighbour of others of which nothing is
  // said.
  void RestOfDomains(Cluster& cluster) {
    for (size_t host = 0; host < cluster.hosts.size(); ++host) {
      if (domain_[host] >= 0) continue;
      domain_[host] = static_cast<int>(cluster.nvlink_domains.size());
      cluster.nvlink_domains.push_back({.name = cluster.hosts[host], .known = false, .nodes = 1});
    }
    cluster.domain_of_host = domain_;
  }

  const Value& root_;
  recipe::Diagnostics& out_;
  std::map<std::string, size_t> index_;  // of a host
  std::vector<int> domain_;              // by host; -1: not known so far
};

}  // namespace

ClusterResult ReadCluster(const std::string& text, const std::string& file) {
  ClusterResult result;
  recipe::Diagnostics& out = result.diagnostics;
  std::optional<recipe::Node> root = recipe::ParseDocument(text, file, out);
  if (!root) {
    for (recipe::Diagnostic& problem : out) {
      bool host_list = problem.excerpt.find('{') != std::string::npos &&
                       problem.excerpt.find('[') != std::string::npos;
      if (host_list && problem.hint.empty()) {
        problem.hint = "within {…} a host list with brackets stands in quotes";
      }
    }
    return result;
  }
  const recipe::NodeEntry* node = root->Find("node");
  if (node && node->value.kind == recipe::Node::Kind::kList) {
    out.push_back({.place = node->value.place,
                   .key = "node",
                   .message = "a list: nodes of several shapes cannot be planned together, as each "
                              "step waits for the slowest",
                   .hint = "describe one shape, and write a file for each of the others"});
    return result;
  }
  recipe::Environment no_environment = [](const std::string&) { return std::nullopt; };
  recipe::Binding bound = recipe::Bind(kClusterSection, *root, "", {.environment = no_environment});
  out.insert(out.end(), bound.diagnostics.begin(), bound.diagnostics.end());
  if (recipe::HasErrors(out)) return result;
  Cluster cluster = Reader(bound.value, out).Run(file);
  if (!recipe::HasErrors(out)) result.cluster = std::move(cluster);
  return result;
}

}  // namespace am::plan

// Cluster: the machines a job is laid out on. From a file of configs/clusters (built into the
// program by name), from a file of the user's, or `local`: this machine, as a probe found it.
//   ClusterResult result = LoadCluster("dgx-h100", ProbeMachine);
//
//   name: dgx-h100
//   nodes: 4                      # how many there are; --nodes takes fewer or more
//   node: {gpus: 8, gpu: H100-SXM, gpu_memory_gib: 79.6, …}
//
// A file may also name its nodes (host_list.h) and say which of them share an NVLink domain, by
// rack or by the label that the GPU operator gives:
//   node_list: node[001-036]
//   nvlink_domains: {rack1: "node[001-018]"}
//   node_labels: {"node[019-036]": {nvidia.com/gpu.clique: 5b2cab8e-….32766}}
// A node of which neither is said is a domain of its own.
#pragma once

#include <absl/status/statusor.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/recipe/diagnostic.h"

namespace am::plan {

// All nodes are alike. Numbers are 0 where they are not known.
struct NodeShape {
  int gpus = 0;     // 0: ranks run on the CPU
  std::string gpu;  // "H100-SXM"; empty without GPUs
  // What the driver calls this GPU, "NVIDIA H100 80GB HBM3": the machine at hand is known by it.
  std::vector<std::string> gpu_names;
  double gpu_memory_gib = 0;  // as nvidia-smi shows it
  double gpu_memory_limit_gib =
      0;                           // what the CUDA runtime offers a process: cudaMemGetInfo's total
  double gpu_memory_gb_per_s = 0;  // HBM or GDDR bandwidth
  // Dense, per GPU; 0: not supported (or not known).
  double peak_tflops_bf16 = 0;
  double peak_tflops_fp16 = 0;
  double peak_tflops_tf32 = 0;
  double peak_tflops_fp32 = 0;
  double peak_tflops_fp8 = 0;  // MXFP8, too
  double peak_tflops_fp4 = 0;  // MXFP4 and NVFP4
  int nvlink_domain_gpus =
      0;  // GPUs that reach each other by NVLink; may span nodes (72 on an NVL72 rack)
  double nvlink_gb_per_s = 0;   // per GPU and direction
  double pcie_gb_per_s = 0;     // per GPU and direction, to the host and to GPUs without NVLink
  double network_gb_per_s = 0;  // per GPU and direction, between domains
  int cpu_cores = 0;
  double memory_gib = 0;
  std::optional<double> price_per_gpu_hour;   // in the user's currency; nothing: not known
  std::map<std::string, std::string> labels;  // the user's own

  // "bfloat16", "float16", "tf32", "float32", "fp8", "mxfp8", "fp4", "mxfp4", "nvfp4", and short
  // forms such as "bf16"; 0 where it is not known.
  double peak_tflops(std::string_view dtype) const;
  // What a plan may fill of a GPU.
  double memory_limit_gib() const {
    return gpu_memory_limit_gib > 0 ? gpu_memory_limit_gib : gpu_memory_gib;
  }
  bool has_nvlink() const { return nvlink_domain_gpus > 1; }
};

struct Cluster {
  std::string name;
  int nodes = 1;
  NodeShape node;

  // Where the file names its nodes: each, and the NVLink domain it lies in as an index of
  // `nvlink_domains`. Both are empty otherwise: domains are then filled in order.
  std::vector<std::string> hosts;
  std::vector<int> domain_of_host;
  struct NvlinkDomain {
    std::string name;   // "rack1", a clique id; the node's name where it is not known
    bool known = true;  // false: a node of which nothing is said
    int nodes = 0;
  };
  std::vector<NvlinkDomain> nvlink_domains;

  bool has_gpus() const { return node.gpus > 0; }
  // Nodes that a full NVLink domain spans; 1 where it lies within a node.
  int domain_nodes() const {
    return has_gpus() ? std::max(1, node.nvlink_domain_gpus / node.gpus) : 1;
  }
};

// What the probe of this machine found (machine.h); tests write one down.
struct Machine {
  int cores = 1;  // that this process may use
  double memory_gib = 0;
  struct Gpu {
    std::string name;  // "NVIDIA H100 80GB HBM3"
    double memory_gib = 0;
  };
  std::vector<Gpu> gpus;
};
using MachineProbe = std::function<Machine()>;

// This machine as a cluster of one node. Facts of GPUs that a built-in cluster has by name are its.
Cluster LocalCluster(const Machine& machine);

// The names that are built in, "local" first.
std::vector<std::string> BuiltInClusters();

// Nothing where there is an error; warnings beside a cluster.
struct ClusterResult {
  std::optional<Cluster> cluster;
  recipe::Diagnostics diagnostics;
};

// A built-in name or the path of a file. The probe is asked only for `local`.
ClusterResult LoadCluster(const std::string& name_or_path, const MachineProbe& probe);
// The text of a cluster file: all that is wrong with it, each at its place.
ClusterResult ReadCluster(const std::string& text, const std::string& file);

// The same as a status whose message is the errors, a line each.
absl::StatusOr<Cluster> FindCluster(const std::string& name_or_path, const MachineProbe& probe);
absl::StatusOr<Cluster> ParseCluster(const std::string& text, const std::string& file);

}  // namespace am::plan

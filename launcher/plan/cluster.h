// Cluster: the machines a job is laid out on. From a file of configs/clusters (built into the
// program by name), from a file of the user's, or `local`: this machine, as a probe found it.
//   absl::StatusOr<Cluster> cluster = FindCluster("dgx-h100", machine);
//
//   name: dgx-h100
//   nodes: 4                      # how many there are; --nodes takes fewer or more
//   node: {gpus: 8, gpu: H100-SXM, gpu_memory_gib: 80, …}
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace am::plan {

struct NodeShape {
  int gpus = 0;     // 0: ranks run on the CPU
  std::string gpu;  // "H100-SXM"; empty without GPUs
  double gpu_memory_gib = 0;
  double gpu_memory_gb_per_s = 0;  // HBM bandwidth
  double peak_tflops_bf16 = 0;     // dense, per GPU
  double peak_tflops_fp8 = 0;      // 0: not supported
  int nvlink_domain_gpus =
      0;  // GPUs that reach each other by NVLink; may span nodes (72 on an NVL72 rack)
  double nvlink_gb_per_s = 0;   // per GPU and direction
  double network_gb_per_s = 0;  // per GPU and direction, between domains
  int cpu_cores = 0;
  double memory_gib = 0;
};

struct Cluster {
  std::string name;
  int nodes = 1;
  NodeShape node;

  bool has_gpus() const { return node.gpus > 0; }
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

Cluster LocalCluster(const Machine& machine);

// The names that are built in, "local" first.
std::vector<std::string> BuiltInClusters();

// A built-in name or the path of a file; errors name the file, line and key. The probe is asked
// only for `local`.
absl::StatusOr<Cluster> FindCluster(const std::string& name_or_path, const MachineProbe& probe);
absl::StatusOr<Cluster> ParseCluster(const std::string& text, const std::string& file);

}  // namespace am::plan

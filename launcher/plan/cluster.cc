#include "launcher/plan/cluster.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "launcher/plan/built_in_clusters.h"
#include "launcher/recipe/suggest.h"

namespace am::plan {
namespace {

// The shape of the built-in cluster whose GPUs the driver calls so.
std::optional<NodeShape> ShapeWithGpu(const std::string& name) {
  for (const BuiltInCluster& file : BuiltInClusterFiles()) {
    if (file.yaml.find(name) == std::string_view::npos) continue;
    ClusterResult read = ReadCluster(std::string(file.yaml), std::string(file.name));
    if (!read.cluster) continue;
    const std::vector<std::string>& names = read.cluster->node.gpu_names;
    if (std::find(names.begin(), names.end(), name) != names.end()) return read.cluster->node;
  }
  return std::nullopt;
}

recipe::Diagnostic Note(recipe::Severity severity, std::string message, std::string hint) {
  recipe::Diagnostic note;
  note.severity = severity;
  note.message = std::move(message);
  note.hint = std::move(hint);
  return note;
}

recipe::Diagnostics NotesOfLocal(const Machine& machine, const Cluster& cluster) {
  recipe::Diagnostics notes;
  for (const Machine::Gpu& gpu : machine.gpus) {
    const std::string& first = machine.gpus.front().name;
    if (gpu.name == first) continue;
    notes.push_back(Note(recipe::Severity::kWarning,
                         absl::StrCat("this machine has GPUs of several kinds, ", first, " and ",
                                      gpu.name, "; the plan takes all of them for the first"),
                         "choose those of one kind with CUDA_VISIBLE_DEVICES and --gpus-per-node"));
    break;
  }
  if (cluster.has_gpus() && cluster.node.peak_tflops_bf16 == 0) {
    notes.push_back(Note(recipe::Severity::kInfo,
                         absl::StrCat("nothing is known of the speed of ", cluster.node.gpu),
                         "write a cluster file with its facts for estimates of time"));
  }
  return notes;
}

absl::StatusOr<Cluster> AsStatus(ClusterResult result) {
  if (result.cluster) return *std::move(result.cluster);
  std::string text = recipe::RenderText(result.diagnostics, {.least = recipe::Severity::kError});
  // Said by the command that was given the name, as its own.
  constexpr std::string_view kError = "error: ";
  if (text.starts_with(kError)) text.erase(0, kError.size());
  if (!text.empty()) text.pop_back();
  return absl::InvalidArgumentError(text);
}

}  // namespace

double NodeShape::peak_tflops(std::string_view dtype) const {
  if (dtype == "bfloat16" || dtype == "bf16") return peak_tflops_bf16;
  if (dtype == "float16" || dtype == "fp16") return peak_tflops_fp16;
  if (dtype == "tf32") return peak_tflops_tf32;
  if (dtype == "float32" || dtype == "fp32") return peak_tflops_fp32;
  if (dtype == "fp8" || dtype == "mxfp8") return peak_tflops_fp8;
  if (dtype == "fp4" || dtype == "mxfp4" || dtype == "nvfp4") return peak_tflops_fp4;
  return 0;
}

Cluster LocalCluster(const Machine& machine) {
  Cluster cluster{.name = "local", .nodes = 1};
  NodeShape& node = cluster.node;
  if (!machine.gpus.empty()) {
    const Machine::Gpu& gpu = machine.gpus.front();
    std::optional<NodeShape> known = ShapeWithGpu(gpu.name);
    if (known) node = *known;
    if (!known) node.gpu = gpu.name;
    if (gpu.memory_gib > 0) node.gpu_memory_gib = gpu.memory_gib;
    node.gpu_memory_limit_gib = std::min(node.gpu_memory_limit_gib, node.gpu_memory_gib);
  }
  node.gpus = static_cast<int>(machine.gpus.size());
  // Boards with NVLink have it between all their GPUs; a rack's other trays are not this machine.
  if (node.nvlink_domain_gpus > 0) node.nvlink_domain_gpus = node.gpus > 1 ? node.gpus : 0;
  node.cpu_cores = machine.cores;
  node.memory_gib = machine.memory_gib;
  return cluster;
}

std::vector<std::string> BuiltInClusters() {
  std::vector<std::string> names = {"local"};
  for (const BuiltInCluster& file : BuiltInClusterFiles()) names.emplace_back(file.name);
  return names;
}

ClusterResult LoadCluster(const std::string& name_or_path, const MachineProbe& probe) {
  if (name_or_path == "local") {
    Machine machine = probe();
    Cluster cluster = LocalCluster(machine);
    recipe::Diagnostics notes = NotesOfLocal(machine, cluster);
    return {.cluster = std::move(cluster), .diagnostics = std::move(notes)};
  }
  for (const BuiltInCluster& file : BuiltInClusterFiles()) {
    if (file.name == name_or_path) {
      return ReadCluster(std::string(file.yaml), absl::StrCat(name_or_path, ".yaml"));
    }
  }
  std::ifstream file(name_or_path, std::ios::binary);
  std::error_code error;
  if (!file || std::filesystem::is_directory(name_or_path, error)) {
    std::vector<std::string> names = BuiltInClusters();
    std::vector<std::string_view> known(names.begin(), names.end());
    std::string list;
    for (const std::string& name : names) absl::StrAppend(&list, list.empty() ? "" : ", ", name);
    std::string near(recipe::Nearest(name_or_path, known));
    std::string hint = near.empty() ? "use " : absl::StrCat("did you mean ", near, "? Known: ");
    absl::StrAppend(&hint, list, " or the path of a YAML file");
    ClusterResult result;
    result.diagnostics.push_back(Note(
        recipe::Severity::kError,
        absl::StrCat("cluster ", name_or_path, ": neither a file nor a built-in cluster"), hint));
    return result;
  }
  std::ostringstream text;
  text << file.rdbuf();
  return ReadCluster(text.str(), name_or_path);
}

absl::StatusOr<Cluster> FindCluster(const std::string& name_or_path, const MachineProbe& probe) {
  return AsStatus(LoadCluster(name_or_path, probe));
}

absl::StatusOr<Cluster> ParseCluster(const std::string& text, const std::string& file) {
  return AsStatus(ReadCluster(text, file));
}

}  // namespace am::plan

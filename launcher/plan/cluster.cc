#include "launcher/plan/cluster.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "launcher/plan/built_in_clusters.h"
#include "launcher/recipe/bind.h"
#include "launcher/recipe/document.h"
#include "launcher/recipe/schema.h"
#include "launcher/recipe/suggest.h"

namespace am::plan {
namespace {

using recipe::Key;
using recipe::Section;
using recipe::Value;
using enum recipe::Type;

constexpr Key kNodeKeys[] = {
    {.name = "gpus", .type = kInt, .least = 0, .means = "GPUs a node; 0: ranks run on the CPU"},
    {.name = "gpu", .nullable = true, .means = "type of the GPU"},
    {.name = "gpu_memory_gib", .type = kFloat, .nullable = true, .least = 0, .unit = "GiB"},
    {.name = "gpu_memory_gb_per_s", .type = kFloat, .nullable = true, .least = 0, .unit = "GB/s"},
    {.name = "peak_tflops_bf16", .type = kFloat, .nullable = true, .least = 0, .unit = "TFLOP/s"},
    {.name = "peak_tflops_fp8", .type = kFloat, .nullable = true, .least = 0, .unit = "TFLOP/s"},
    {.name = "nvlink_domain_gpus", .type = kInt, .nullable = true, .least = 0},
    {.name = "nvlink_gb_per_s", .type = kFloat, .nullable = true, .least = 0, .unit = "GB/s"},
    {.name = "network_gb_per_s", .type = kFloat, .nullable = true, .least = 0, .unit = "GB/s"},
    {.name = "cpu_cores", .type = kInt, .nullable = true, .least = 0},
    {.name = "memory_gib", .type = kFloat, .nullable = true, .least = 0, .unit = "GiB"},
};
constexpr Section kNodeSection = {.keys = kNodeKeys};
constexpr Key kClusterKeys[] = {
    {.name = "name", .means = "what the plan calls it"},
    {.name = "nodes", .type = kInt, .least = 1, .unit = "nodes", .means = "how many there are"},
    {.name = "node", .type = kSection, .section = &kNodeSection},
};
constexpr Section kClusterSection = {.keys = kClusterKeys};

template <typename T, typename Field>
void Read(const Value& map, std::string_view key, Field& field) {
  const Value* value = map.Find(key);
  if (!value) return;
  if (const T* typed = std::get_if<T>(&value->data)) field = static_cast<Field>(*typed);
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
  node.gpus = static_cast<int>(machine.gpus.size());
  node.cpu_cores = machine.cores;
  node.memory_gib = machine.memory_gib;
  if (!machine.gpus.empty()) {
    node.gpu = machine.gpus.front().name;
    node.gpu_memory_gib = machine.gpus.front().memory_gib;
  }
  return cluster;
}

std::vector<std::string> BuiltInClusters() {
  std::vector<std::string> names = {"local"};
  for (const BuiltInCluster& file : BuiltInClusterFiles()) names.emplace_back(file.name);
  return names;
}

absl::StatusOr<Cluster> ParseCluster(const std::string& text, const std::string& file) {
  recipe::Diagnostics problems;
  std::optional<recipe::Node> root = recipe::ParseDocument(text, file, problems);
  recipe::Environment no_environment = [](const std::string&) { return std::nullopt; };
  Value value;
  if (root) {
    recipe::Binding bound =
        recipe::Bind(kClusterSection, *root, "", {.environment = no_environment});
    problems = std::move(bound.diagnostics);
    value = std::move(bound.value);
  }
  if (recipe::HasErrors(problems)) {
    std::string rendered = recipe::RenderText(problems);
    rendered.pop_back();
    return absl::InvalidArgumentError(rendered);
  }
  const Value* node = value.Find("node");
  if (!node || !node->Find("gpus")) {
    return absl::InvalidArgumentError(
        absl::StrCat(file, ": error: node.gpus: missing; say how many GPUs a node has"));
  }
  Cluster cluster{.name = std::filesystem::path(file).stem().string()};
  Read<std::string>(value, "name", cluster.name);
  Read<int64_t>(value, "nodes", cluster.nodes);
  NodeShape& shape = cluster.node;
  Read<int64_t>(*node, "gpus", shape.gpus);
  Read<std::string>(*node, "gpu", shape.gpu);
  Read<double>(*node, "gpu_memory_gib", shape.gpu_memory_gib);
  Read<double>(*node, "gpu_memory_gb_per_s", shape.gpu_memory_gb_per_s);
  Read<double>(*node, "peak_tflops_bf16", shape.peak_tflops_bf16);
  Read<double>(*node, "peak_tflops_fp8", shape.peak_tflops_fp8);
  Read<int64_t>(*node, "nvlink_domain_gpus", shape.nvlink_domain_gpus);
  Read<double>(*node, "nvlink_gb_per_s", shape.nvlink_gb_per_s);
  Read<double>(*node, "network_gb_per_s", shape.network_gb_per_s);
  Read<int64_t>(*node, "cpu_cores", shape.cpu_cores);
  Read<double>(*node, "memory_gib", shape.memory_gib);
  return cluster;
}

absl::StatusOr<Cluster> FindCluster(const std::string& name_or_path, const MachineProbe& probe) {
  if (name_or_path == "local") return LocalCluster(probe());
  for (const BuiltInCluster& file : BuiltInClusterFiles()) {
    if (file.name == name_or_path) {
      return ParseCluster(std::string(file.yaml), absl::StrCat(name_or_path, ".yaml"));
    }
  }
  std::ifstream file(name_or_path, std::ios::binary);
  std::error_code error;
  if (!file || std::filesystem::is_directory(name_or_path, error)) {
    std::string names;
    for (const std::string& name : BuiltInClusters()) {
      absl::StrAppend(&names, names.empty() ? "" : ", ", name);
    }
    return absl::NotFoundError(absl::StrCat("cluster ", name_or_path,
                                            ": neither a file nor a built-in cluster; use ", names,
                                            " or the path of a YAML file"));
  }
  std::ostringstream text;
  text << file.rdbuf();
  return ParseCluster(text.str(), name_or_path);
}

}  // namespace am::plan

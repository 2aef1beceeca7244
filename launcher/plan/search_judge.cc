#include "launcher/plan/search_judge.h"

#include <algorithm>
#include <utility>

#include "launcher/plan/batch.h"
#include "launcher/plan/device_mesh.h"
#include "launcher/plan/memory.h"
#include "launcher/plan/rules.h"
#include "launcher/plan/step_time.h"

namespace am::plan {
namespace {

recipe::Recipe Reduced(const recipe::Recipe& recipe) {
  recipe::Value root;
  recipe::Map kept;
  if (recipe.root().map()) {
    for (const recipe::Entry& entry : *recipe.root().map()) {
      if (entry.key == "distributed" || entry.key == "step_scheduler" ||
          entry.key == "dataloader" || entry.key == "recipe") {
        kept.push_back(entry);
      }
    }
  }
  root.data = std::move(kept);
  return recipe::Recipe(recipe.file(), std::move(root), recipe.kind());
}

}  // namespace

LayoutJudge::LayoutJudge(const SearchProblem& problem)
    : problem_(problem), reduced_(Reduced(problem.recipe)) {}

std::optional<Layout> LayoutJudge::LegalLayout(const LayoutChoice& choice) const {
  const SearchProblem& p = problem_;
  recipe::Recipe candidate = WithChoice(reduced_, choice, p.global_batch_size, p.layers);
  recipe::Diagnostics out;
  CheckModel(candidate, *p.options.model, out);
  if (recipe::HasErrors(out)) return std::nullopt;
  std::optional<ParallelDims> dims = DeriveDims(candidate, p.world, out);
  if (!dims) return std::nullopt;
  std::optional<Batch> batch = ResolveBatch(candidate, dims->dp(), out);
  if (!batch) return std::nullopt;
  Layout layout{.dims = *dims,
                .ranks_per_node = p.ranks_per_node,
                .seq_length = p.seq_length,
                .global_batch_size = batch->global_batch_size,
                .local_batch_size = batch->local_batch_size,
                .micro_batch_size = batch->local_batch_size,
                .grad_acc_steps = batch->grad_acc_steps};
  if (dims->pp > 1) {
    std::optional<PipelineStages> stages =
        CutPipeline(candidate, *dims, *batch, p.options.model, out);
    if (!stages) return std::nullopt;
    layout.virtual_stages = stages->virtual_stages;
    layout.micro_batch_size = stages->micro_batch_size;
  }
  if (recipe::HasErrors(out)) return std::nullopt;
  layout.bandwidth = BandwidthOf(AxesOf(*dims, p.cluster, p.ranks_per_node), p.cluster.node);
  return layout;
}

std::optional<JudgedLayout> LayoutJudge::Judge(const LayoutChoice& choice) const {
  std::optional<Layout> layout = LegalLayout(choice);
  if (!layout) return std::nullopt;
  Workload workload = LayOut(problem_.training, *layout);
  workload.strategy = choice.strategy;
  workload.recompute = choice.recompute;
  workload.recompute_assumed = false;
  MemoryEstimate memory = EstimateMemory(workload);
  JudgedLayout judged{.choice = choice, .memory = memory.worst.total()};
  if (!memory.fits()) judged.over = judged.memory - memory.limit;
  judged.time = EstimateStepTime(workload).seconds;
  return judged;
}

std::vector<PlannedAxis> AxesOf(const ParallelDims& dims, const Cluster& cluster,
                                int ranks_per_node) {
  DeviceMesh mesh(dims);
  const NodeShape& node = cluster.node;
  int64_t domain = ranks_per_node;
  if (node.has_nvlink()) {
    domain = node.nvlink_domain_gpus < node.gpus ? std::min(ranks_per_node, node.nvlink_domain_gpus)
                                                 : int64_t{cluster.domain_nodes()} * ranks_per_node;
  }
  std::vector<PlannedAxis> axes;
  for (MeshAxis axis : kMeshAxes) {
    int size = mesh.Size(axis), stride = mesh.Stride(axis);
    PlannedAxis described{
        .axis = axis, .size = size, .fabric = "none", .groups = dims.world() / size};
    if (size > 1) {
      // Groups begin at multiples of their span, so none is cut where it divides the domain.
      int64_t span = int64_t{size} * stride;
      bool inside = domain % span == 0 || dims.world() <= domain;
      bool one_node = ranks_per_node % span == 0 || dims.world() <= ranks_per_node;
      described.groups_cut = inside ? 0 : described.groups;
      described.ranks_in_domain =
          inside ? size
                 : static_cast<int>(std::clamp<int64_t>((domain + stride - 1) / stride, 1, size));
      if (inside && node.has_nvlink()) {
        described.fabric = "nvlink";
        described.gb_per_s = node.nvlink_gb_per_s;
      } else if (one_node) {
        described.fabric = "host";
        described.gb_per_s = node.pcie_gb_per_s;
      } else {
        described.fabric = "network";
        described.gb_per_s = node.network_gb_per_s;
      }
    }
    axes.push_back(described);
  }
  return axes;
}

}  // namespace am::plan

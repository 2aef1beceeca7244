#include "launcher/plan/plan.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "launcher/plan/rules.h"

namespace am::plan {
namespace {

int RanksPerNode(const Cluster& cluster, const PlanOptions& options) {
  if (options.ranks_per_node) return *options.ranks_per_node;
  return std::max(1, cluster.node.gpus);
}

// The length that every sample is brought to, where the recipe fixes one.
std::optional<int64_t> SequenceLength(const recipe::Recipe& recipe, std::string& reason) {
  for (const char* key :
       {"packed_sequence.packed_sequence_size", "packed_sequence.pack_size", "dataset.seq_length",
        "dataset.seq_len", "distributed.pipeline.pp_seq_len", "dataloader.collate_fn.max_length"}) {
    const recipe::Value* value = recipe.Find(key);
    const auto* length = value ? std::get_if<int64_t>(&value->data) : nullptr;
    if (!length || *length <= 0) continue;
    reason = absl::StrCat("sequence length ", *length, ": ", key);
    return *length;
  }
  return std::nullopt;
}

// Recipes of other kinds may have no batch sizes of their own.
std::optional<Batch> BatchOf(const recipe::Recipe& recipe, int dp, recipe::Diagnostics& out) {
  if (!recipe.Has("step_scheduler") && recipe.kind() != "finetune") return Batch{};
  return ResolveBatch(recipe, dp, out);
}

std::vector<std::string> Reasons(const Plan& plan, const Cluster& cluster,
                                 const std::string& seq_reason) {
  const ParallelDims& d = plan.dims;
  std::vector<std::string> reasons;
  reasons.push_back(absl::StrCat("world ", d.world(), " = ", plan.nodes,
                                 plan.nodes == 1 ? " node · " : " nodes · ", plan.ranks_per_node,
                                 plan.on_gpus ? " GPUs" : " CPU ranks", " of ", cluster.name));
  reasons.push_back(absl::StrCat("dp ", d.dp(), " = world ", d.world(), " / (tp ", d.tp, " · cp ",
                                 d.cp, " · pp ", d.pp, ")"));
  if (plan.strategy == "ddp") {
    reasons.push_back("ddp: every rank holds the whole model");
  } else {
    std::string copies =
        d.dp_replicate > 1 ? absl::StrCat(", and copied ", d.dp_replicate, " times") : "";
    reasons.push_back(absl::StrCat("weights, gradients and moments are sharded over dp_shard ",
                                   d.dp_shard, " · cp ", d.cp, " = ", d.dp_shard * d.cp, " ranks",
                                   copies));
  }
  if (!plan.batch.reason.empty()) reasons.push_back(plan.batch.reason);
  if (d.ep > 1) {
    reasons.push_back(absl::StrCat("experts: ep ", d.ep, " · ep_shard ", d.ep_shard(),
                                   " = the ranks of a stage, contiguous"));
  }
  if (plan.virtual_stages) {
    int64_t stages = int64_t{d.pp} * *plan.virtual_stages;
    reasons.push_back(absl::StrCat(
        stages, " stages = pp ", d.pp, " · ", *plan.virtual_stages, " a rank; ",
        plan.batch.local_batch_size / std::max<int64_t>(1, plan.micro_batch_size.value_or(1)),
        " micro-batches of ", plan.micro_batch_size.value_or(1), " fill them"));
  }
  if (!seq_reason.empty()) reasons.push_back(seq_reason);
  return reasons;
}

// What the estimates have to say about the recipe.
void CheckEstimates(const recipe::Recipe& recipe, const Plan& plan, recipe::Diagnostics& out) {
  const Estimates& e = plan.estimates;
  if (!e.workload) return;
  const Workload& workload = *e.workload;
  if (workload.adapter && workload.adapter->modules.empty()) {
    std::string key =
        recipe.Has("peft.exclude_modules") ? "peft.exclude_modules" : "peft.target_modules";
    std::vector<std::string> names = LinearNames(*e.shape);
    std::string list;
    for (const std::string& name : names) absl::StrAppend(&list, list.empty() ? "" : ", ", name);
    recipe.Error(out, key, "no linear module of the model matches",
                 absl::StrCat("they are ", list));
  }
  bool low = workload.precision == Precision::kFp8 || workload.precision == Precision::kMxfp8;
  if (low && plan.on_gpus && plan.node.peak_tflops_fp8 == 0) {
    recipe.Report(out, recipe::Severity::kWarning,
                  recipe.Has("model.backend.te_fp8") ? "model.backend.te_fp8" : "fp8.enabled",
                  absl::StrCat(plan.node.gpu, " has no FP8 arithmetic"), "take it out");
  }
  if (e.memory && !e.memory->fits()) {
    recipe.Report(out, recipe::Severity::kWarning, "distributed",
                  absl::StrCat("the fullest rank ", WhyItDoesNotFit(workload)));
  }
}

std::shared_ptr<const model::ModelShape> ShapeOfModel(const PlanOptions& options,
                                                      std::vector<std::string>& unknown) {
  if (!options.model || !options.model->json.is_object() || options.model->json.empty()) {
    return nullptr;
  }
  absl::StatusOr<model::ModelShape> shape = model::ShapeOf(options.model->json);
  if (shape.ok()) return std::make_shared<model::ModelShape>(*std::move(shape));
  unknown.push_back(
      absl::StrCat("parameters, FLOPs, memory and step time: ", shape.status().message()));
  return nullptr;
}

void SayWhatIsNotKnown(const std::string& model, Estimates& estimates) {
  if (estimates.shape || !estimates.unknown.empty()) return;
  estimates.unknown.push_back(absl::StrCat(
      "parameters, FLOPs, memory and step time: ",
      model.empty() ? "the recipe names no model"
                    : "the config.json of " + model + " is not at hand",
      "; name a directory that has it, or fetch the model into the Hugging Face cache"));
}

}  // namespace

std::optional<int64_t> Plan::tokens_per_step() const {
  if (!seq_length || batch.global_batch_size <= 0) return std::nullopt;
  return *seq_length * batch.global_batch_size;
}

std::string ModelName(const recipe::Recipe& recipe) {
  for (const char* key :
       {"model.pretrained_model_name_or_path", "model.config.pretrained_model_name_or_path",
        "model.config.name_or_path", "model.config"}) {
    if (auto name = GivenText(recipe, key)) return *name;
  }
  return "";
}

PlanResult MakePlan(const recipe::Recipe& recipe, const Cluster& cluster,
                    const PlanOptions& options) {
  PlanResult result;
  recipe::Diagnostics& out = result.diagnostics;
  Plan plan{.cluster = cluster.name,
            .node = cluster.node,
            .nodes = options.nodes.value_or(cluster.nodes),
            .ranks_per_node = RanksPerNode(cluster, options),
            .on_gpus = cluster.has_gpus(),
            .strategy = recipe.String("distributed.strategy"),
            .model = ModelName(recipe)};
  if (!CheckMachines(cluster, plan.nodes, plan.ranks_per_node, out)) return result;
  if (options.model) CheckModel(recipe, *options.model, out);
  if (recipe::HasErrors(out)) return result;
  std::optional<ParallelDims> dims = DeriveDims(recipe, plan.nodes * plan.ranks_per_node, out);
  if (!dims) return result;
  plan.dims = *dims;
  std::optional<Batch> batch = BatchOf(recipe, plan.dims.dp(), out);
  if (!batch) return result;
  plan.batch = *batch;
  if (plan.dims.pp > 1) {
    std::optional<PipelineStages> stages =
        CutPipeline(recipe, plan.dims, plan.batch, options.model, out);
    if (!stages) return result;
    plan.virtual_stages = stages->virtual_stages;
    plan.micro_batch_size = stages->micro_batch_size;
  } else if (plan.batch.local_batch_size > 0) {
    plan.micro_batch_size = plan.batch.local_batch_size;
  }
  std::string seq_reason;
  plan.seq_length = options.seq_length;
  if (!plan.seq_length) plan.seq_length = SequenceLength(recipe, seq_reason);
  Placement placement = Place(plan.dims, cluster, plan.nodes, plan.ranks_per_node);
  for (const PlacementNote& note : placement.notes) {
    recipe.Report(out, note.severity, note.key, note.message, note.hint);
  }
  plan.ranks = std::move(placement.ranks);
  plan.axes = std::move(placement.axes);
  plan.segment_nodes = placement.segment_nodes;
  plan.hosts = std::move(placement.hosts);

  std::vector<std::string> unknown;
  auto shape = ShapeOfModel(options, unknown);
  int64_t layers = shape           ? static_cast<int64_t>(shape->layers.size())
                   : options.model ? options.model->num_hidden_layers
                                   : 0;
  if (layers > 0) {
    plan.layers_of_stage =
        CutLayers(static_cast<int>(layers), plan.dims.pp * plan.virtual_stages.value_or(1));
  }
  plan.estimates =
      EstimatePlan(recipe, plan, std::move(shape), cluster.node, options.flops_convention);
  plan.estimates.unknown.insert(plan.estimates.unknown.begin(), unknown.begin(), unknown.end());
  SayWhatIsNotKnown(plan.model, plan.estimates);

  plan.reasons = Reasons(plan, cluster, seq_reason);
  if (!placement.segment_reason.empty()) plan.reasons.push_back(placement.segment_reason);
  for (const std::string& reason : plan.estimates.reasons) plan.reasons.push_back(reason);
  if (plan.estimates.length.steps) plan.reasons.push_back(plan.estimates.length.reason);
  CheckEstimates(recipe, plan, out);
  if (!recipe::HasErrors(out)) result.plan = std::move(plan);
  return result;
}

recipe::Diagnostics CheckWithoutCluster(const recipe::Recipe& recipe,
                                        const std::optional<model::ModelConfig>& model) {
  // What the smallest world cannot meet, no multiple of it can: dp only ever grows by whole
  // factors.
  recipe::Diagnostics out;
  if (model) CheckModel(recipe, *model, out);
  if (recipe::HasErrors(out)) return out;
  std::optional<ParallelDims> dims = DeriveDims(recipe, SmallestWorld(recipe), out);
  if (!dims) return out;
  std::optional<Batch> batch = BatchOf(recipe, dims->dp(), out);
  if (batch) CutPipeline(recipe, *dims, *batch, model, out);
  return out;
}

}  // namespace am::plan

#include "launcher/plan/search.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "launcher/plan/arithmetic.h"
#include "launcher/plan/rules.h"

namespace am::plan {
namespace {

constexpr int kMostPipelineRanks = 16;
constexpr int kMostContextRanks = 32;
constexpr int64_t kLeastTokensOfContextRank = 2048;
constexpr int64_t kMostLocalBatch = 32;
constexpr size_t kExpanded = 48;       // shapes of which all else is tried
constexpr double kWorthExpanding = 2;  // of the quickest shape's time
constexpr size_t kPlanned = 8;         // of the best, planned in full
constexpr size_t kMissesShown = 3;

// ---- the recipe with other values

recipe::Value& Child(recipe::Value& map, std::string_view name) {
  if (!map.map()) map.data = recipe::Map();
  auto& entries = std::get<recipe::Map>(map.data);
  for (recipe::Entry& entry : entries) {
    if (entry.key == name) return entry.value;
  }
  entries.push_back({.key = std::string(name)});
  return entries.back().value;
}

void Remove(recipe::Value& root, std::string_view section, std::string_view name) {
  auto* sections = std::get_if<recipe::Map>(&root.data);
  if (!sections) return;
  for (recipe::Entry& entry : *sections) {
    if (entry.key != section || !entry.value.map()) continue;
    std::erase_if(std::get<recipe::Map>(entry.value.data),
                  [&](const recipe::Entry& value) { return value.key == name; });
  }
}

void Set(recipe::Value& root, std::initializer_list<std::string_view> path,
         decltype(recipe::Value::data) data) {
  recipe::Value* value = &root;
  for (std::string_view name : path) value = &Child(*value, name);
  value->data = std::move(data);
}

// Layers of a stage that make so many stages a rank; rounding makes up for the rest.
int64_t LayersPerStage(int64_t layers, const LayoutChoice& choice) {
  int64_t stages = int64_t{choice.pp} * choice.virtual_stages;
  return std::max<int64_t>(1, (layers + stages - 1) / stages);
}

// Only the sections that the rules of the plan read.
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

// What a choice changes, as options.
std::vector<std::string> OverridesOf(const recipe::Recipe& recipe, const LayoutChoice& choice,
                                     int64_t global_batch_size, int64_t layers) {
  std::vector<std::string> out;
  auto number = [&](const char* key, int64_t value, int64_t silent) {
    const recipe::Value* given = recipe.Find(key);
    const auto* as = given ? std::get_if<int64_t>(&given->data) : nullptr;
    int64_t now = as && *as > 0 ? *as : silent;
    if (now != value) out.push_back(absl::StrCat("--", key, "=", value));
  };
  auto text = [&](const char* key, std::string_view value, std::string_view silent) {
    if (GivenText(recipe, key).value_or(std::string(silent)) == value) return;
    out.push_back(absl::StrCat("--", key, "=", std::string(value)));
  };
  text("distributed.strategy", choice.strategy, "fsdp2");
  if (recipe.Has("distributed.dp_size")) out.emplace_back("--distributed.dp_size=null");
  number("distributed.dp_replicate_size", choice.dp_replicate, 1);
  number("distributed.tp_size", choice.tp, 1);
  number("distributed.cp_size", choice.cp, 1);
  number("distributed.pp_size", choice.pp, 1);
  number("distributed.ep_size", choice.ep, 1);
  if (choice.pp > 1) {
    bool single = choice.virtual_stages == 1;
    text("distributed.pipeline.pp_schedule", single ? "1f1b" : "interleaved1f1b",
         recipe.Has("distributed.pipeline") ? "1f1b" : "");
    number("distributed.pipeline.pp_microbatch_size", choice.micro_batch_size, 1);
    if (single) {
      if (recipe.Has("distributed.pipeline.layers_per_stage")) {
        out.emplace_back("--distributed.pipeline.layers_per_stage=null");
      }
    } else {
      number("distributed.pipeline.layers_per_stage", LayersPerStage(layers, choice), 0);
      text("distributed.pipeline.round_virtual_stages_to_pp_multiple", "up", "");
    }
  }
  if (recipe.Has("step_scheduler.grad_acc_steps")) {
    out.emplace_back("--step_scheduler.grad_acc_steps=null");
  }
  number("step_scheduler.global_batch_size", global_batch_size, 32);
  bool loader = recipe.Has("dataloader.batch_size");
  if (loader) number("dataloader.batch_size", choice.local_batch_size, 1);
  if (!loader || recipe.Has("step_scheduler.local_batch_size")) {
    number("step_scheduler.local_batch_size", choice.local_batch_size, 1);
  }
  text("distributed.activation_checkpointing", Name(choice.recompute), "");
  return out;
}

// ---- candidates

class LayoutSearch {
 public:
  LayoutSearch(const recipe::Recipe& recipe, const Cluster& cluster, const PlanOptions& options)
      : recipe_(recipe), reduced_(Reduced(recipe)), cluster_(cluster), options_(options) {}

  SearchResult Run() {
    if (!Prepare()) return std::move(result_);
    TryShapes();
    std::stable_sort(shapes_.begin(), shapes_.end(),
                     [](const Tried& a, const Tried& b) { return a.time < b.time; });
    for (size_t i = 0; i < std::min(kExpanded, shapes_.size()); ++i) {
      if (shapes_[i].time > kWorthExpanding * shapes_.front().time) break;
      Expand(shapes_[i]);
    }
    PlanTheBest();
    return std::move(result_);
  }

 private:
  struct Tried {
    LayoutChoice choice;
    double time = 0;
    double memory = 0;
    double over = 0;  // GiB beyond the limit
  };

  bool Prepare() {
    PlanResult own = MakePlan(recipe_, cluster_, options_);
    if (!options_.model) return Refuse("the model is not known, so nothing can be estimated");
    auto shape = model::ShapeOf(options_.model->json);
    if (!shape.ok()) return Refuse(std::string(shape.status().message()));
    shape_ = std::make_shared<const model::ModelShape>(*std::move(shape));
    layers_ = static_cast<int64_t>(shape_->layers.size());
    training_ = TrainingOf(recipe_, shape_, cluster_.node);
    nodes_ = options_.nodes.value_or(cluster_.nodes);
    ranks_per_node_ = options_.ranks_per_node.value_or(std::max(1, cluster_.node.gpus));
    world_ = nodes_ * ranks_per_node_;
    recipe::Diagnostics machines;
    if (!CheckMachines(cluster_, nodes_, ranks_per_node_, machines)) {
      return Refuse(machines.front().message);
    }
    if (own.plan) {
      global_ = own.plan->batch.global_batch_size;
      seq_ = own.plan->seq_length.value_or(0);
      RecordOwn(*own.plan);
    } else {
      // The recipe's own layout is refused: its batch may still be met by another.
      global_ = recipe_.OptInt("step_scheduler.global_batch_size").value_or(32);
      seq_ = LengthWithoutPlan();
    }
    if (seq_ <= 0) return Refuse("the sequence length is not known; ask with --what-if seq=N");
    if (global_ <= 0) return Refuse("this kind of recipe has no batch sizes");
    if (cluster_.node.gpus == 0 || cluster_.node.peak_tflops_bf16 <= 0) {
      return Refuse("step times are known for GPUs alone; name a cluster with --cluster");
    }
    return true;
  }

  bool Refuse(std::string why) {
    result_.note = std::move(why);
    return false;
  }

  int64_t LengthWithoutPlan() {
    // Any layout that is legal says it: that of a single rank.
    recipe::Recipe alone = WithChoice(recipe_, {.strategy = "fsdp2"}, int64_t{1}, layers_);
    PlanOptions options = options_;
    options.nodes = options.ranks_per_node = 1;
    PlanResult planned = MakePlan(alone, cluster_, options);
    return planned.plan ? planned.plan->seq_length.value_or(0) : 0;
  }

  void RecordOwn(const Plan& plan) {
    const Estimates& e = plan.estimates;
    if (!e.workload || !e.step_time || !e.memory) return;
    result_.own = ProposalOf(plan);
    own_ = result_.own->choice;
  }

  Proposal ProposalOf(const Plan& plan) const {
    const Estimates& e = plan.estimates;
    const ParallelDims& d = plan.dims;
    return {
        .choice = {.strategy = plan.strategy,
                   .tp = d.tp,
                   .cp = d.cp,
                   .pp = d.pp,
                   .ep = d.ep,
                   .dp_replicate = d.dp_replicate,
                   .virtual_stages = plan.virtual_stages.value_or(1),
                   .local_batch_size = plan.batch.local_batch_size,
                   .micro_batch_size = plan.virtual_stages ? plan.micro_batch_size.value_or(1) : 1,
                   .recompute = e.workload->recompute},
        .step_time_s = e.step_time->seconds,
        .tokens_per_s = e.step_time->tokens_per_s,
        .memory_gib = e.memory->worst.total(),
        .limit_gib = e.memory->limit,
        .fits = e.memory->fits()};
  }

  // By the rules of the plan, on the recipe with the choice laid over.
  std::optional<Layout> LegalLayout(const LayoutChoice& choice) {
    ++result_.tried;
    recipe::Recipe candidate = WithChoice(reduced_, choice, global_, layers_);
    recipe::Diagnostics out;
    CheckModel(candidate, *options_.model, out);
    if (recipe::HasErrors(out)) return std::nullopt;
    std::optional<ParallelDims> dims = DeriveDims(candidate, world_, out);
    if (!dims) return std::nullopt;
    std::optional<Batch> batch = ResolveBatch(candidate, dims->dp(), out);
    if (!batch) return std::nullopt;
    Layout layout{.dims = *dims,
                  .ranks_per_node = ranks_per_node_,
                  .seq_length = seq_,
                  .global_batch_size = batch->global_batch_size,
                  .local_batch_size = batch->local_batch_size,
                  .micro_batch_size = batch->local_batch_size,
                  .grad_acc_steps = batch->grad_acc_steps};
    if (dims->pp > 1) {
      std::optional<PipelineStages> stages =
          CutPipeline(candidate, *dims, *batch, options_.model, out);
      if (!stages) return std::nullopt;
      layout.virtual_stages = stages->virtual_stages;
      layout.micro_batch_size = stages->micro_batch_size;
    }
    if (recipe::HasErrors(out)) return std::nullopt;
    layout.bandwidth = BandwidthOf(AxesOf(*dims, cluster_, ranks_per_node_), cluster_.node);
    ++result_.legal;
    return layout;
  }

  std::optional<Tried> Try(const LayoutChoice& choice) {
    std::optional<Layout> layout = LegalLayout(choice);
    if (!layout) return std::nullopt;
    Workload workload = LayOut(training_, *layout);
    workload.strategy = choice.strategy;
    workload.recompute = choice.recompute;
    workload.recompute_assumed = false;
    MemoryEstimate memory = EstimateMemory(workload);
    Tried tried{.choice = choice, .memory = memory.worst.total()};
    if (!memory.fits()) tried.over = tried.memory - memory.limit;
    tried.time = EstimateStepTime(workload).seconds;
    if (tried.over > 0) {
      misses_.push_back(tried);
      return tried;
    }
    ++result_.fitting;
    hits_.push_back(tried);
    return tried;
  }

  // ---- shapes: tp, cp, pp, ep with what takes the least memory

  std::vector<int> TensorRanks() const {
    std::vector<int> out = {1};
    // Mixtures of experts are cut by experts; their families have no plan for tp.
    if (shape_->num_experts == 0) {
      for (int64_t tp : DivisorsOf(ranks_per_node_)) {
        if (tp > 1 && tp <= 16) out.push_back(static_cast<int>(tp));
      }
    }
    AddOnce(out, own_.tp);
    return out;
  }

  std::vector<int> ContextRanks() const {
    std::vector<int> out = {1};
    for (int cp = 2; cp <= kMostContextRanks && seq_ / cp >= kLeastTokensOfContextRank; cp *= 2) {
      out.push_back(cp);
    }
    AddOnce(out, own_.cp);
    return out;
  }

  std::vector<int> PipelineRanks() const {
    std::vector<int> out = {1};
    bool tied = std::any_of(shape_->head.begin(), shape_->head.end(), [](const auto& weight) {
      return weight.role == model::Role::kHead && weight.copies == 0;
    });
    if (!tied && recipe_.String("distributed.strategy") != "megatron_fsdp") {
      for (int pp = 2; pp <= kMostPipelineRanks && pp <= layers_; pp *= 2) out.push_back(pp);
    }
    AddOnce(out, own_.pp);
    return out;
  }

  std::vector<int> ExpertRanks(int64_t dp_cp) const {
    std::vector<int> out = {1};
    if (shape_->num_experts == 0) return out;
    for (int64_t ep : DivisorsOf(std::gcd(shape_->num_experts, dp_cp))) {
      if (ep > 1) out.push_back(static_cast<int>(ep));
    }
    return out;
  }

  static void AddOnce(std::vector<int>& values, int value) {
    if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
  }

  void TryShapes() {
    std::string strategy = recipe_.String("distributed.strategy");
    if (strategy == "ddp") {
      LayoutChoice copies{.strategy = "ddp", .recompute = Recompute::kFull};
      if (auto tried = Try(copies); tried && tried->over == 0) shapes_.push_back(*tried);
      strategy = "fsdp2";
    }
    for (int tp : TensorRanks()) {
      for (int cp : ContextRanks()) {
        for (int pp : PipelineRanks()) {
          int64_t others = int64_t{tp} * cp * pp;
          if (world_ % others != 0 || global_ % (world_ / others) != 0) continue;
          int64_t dp = world_ / others;
          for (int ep : ExpertRanks(dp * cp)) {
            LayoutChoice choice{.strategy = strategy,
                                .tp = tp,
                                .cp = cp,
                                .pp = pp,
                                .ep = ep,
                                .local_batch_size = pp,
                                .recompute = Recompute::kFull};
            std::optional<Tried> tried = Try(choice);
            if (tried && tried->over == 0) shapes_.push_back(*tried);
          }
        }
      }
    }
  }

  // ---- all else, one after another: virtual stages, batch and recomputation, replication

  void Expand(const Tried& shape) {
    Tried best = shape;
    auto better = [&](const LayoutChoice& choice) {
      std::optional<Tried> tried = Try(choice);
      if (tried && tried->over == 0 && tried->time < best.time) best = *tried;
    };
    int64_t dp = world_ / (int64_t{shape.choice.tp} * shape.choice.cp * shape.choice.pp);
    int64_t unit = shape.choice.pp > 1 ? shape.choice.pp : 1;
    for (int64_t local = unit; local <= std::max(unit, kMostLocalBatch) && dp * local <= global_;
         local *= 2) {
      for (Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
        LayoutChoice choice = shape.choice;
        choice.local_batch_size = local;
        choice.recompute = recompute;
        better(choice);
        if (shape.choice.pp == 1) continue;
        for (int64_t micro = 2; micro <= 4 && local / micro >= unit; micro *= 2) {
          choice.micro_batch_size = micro;
          better(choice);
        }
      }
    }
    if (shape.choice.pp > 1) {
      for (int stages : {2, 4, 8}) {
        LayoutChoice choice = best.choice;
        choice.virtual_stages = stages;
        if (int64_t{shape.choice.pp} * stages <= layers_) better(choice);
      }
    }
    if (shape.choice.strategy != "fsdp2") return;
    for (int64_t replicate : DivisorsOf(dp)) {
      // Shards within a domain, or within eight.
      int64_t shard_ranks = dp / replicate * shape.choice.cp * shape.choice.tp;
      int64_t domain = int64_t{cluster_.domain_nodes()} * ranks_per_node_;
      if (replicate == 1 || replicate == dp) continue;
      if (shard_ranks != domain && shard_ranks != 8 * domain) continue;
      LayoutChoice choice = best.choice;
      choice.dp_replicate = static_cast<int>(replicate);
      better(choice);
    }
  }

  // ---- the verdict

  void PlanTheBest() {
    std::stable_sort(hits_.begin(), hits_.end(),
                     [](const Tried& a, const Tried& b) { return a.time < b.time; });
    std::vector<Proposal> planned;
    auto seen = [&](const LayoutChoice& choice) {
      return std::any_of(planned.begin(), planned.end(),
                         [&](const Proposal& other) { return other.choice == choice; });
    };
    for (const Tried& hit : hits_) {
      if (planned.size() == kPlanned) break;
      if (seen(hit.choice)) continue;
      PlanResult result =
          MakePlan(WithChoice(recipe_, hit.choice, global_, layers_), cluster_, options_);
      if (!result.plan || !result.plan->estimates.step_time) continue;
      Proposal proposal = ProposalOf(*result.plan);
      if (!proposal.fits) continue;
      proposal.choice = hit.choice;
      proposal.overrides = OverridesOf(recipe_, hit.choice, global_, layers_);
      planned.push_back(std::move(proposal));
    }
    if (result_.own && result_.own->fits && !seen(result_.own->choice)) {
      planned.insert(planned.begin(), *result_.own);
    }
    std::stable_sort(planned.begin(), planned.end(), [](const Proposal& a, const Proposal& b) {
      return a.step_time_s < b.step_time_s;
    });
    if (planned.empty()) {
      result_.note = absl::StrCat("none of ", result_.legal, " legal layouts fits");
    } else {
      result_.best = planned.front();
      result_.best->verdict = "the fastest that fits";
      for (size_t i = 1; i < planned.size(); ++i) {
        planned[i].verdict = absl::StrFormat(
            "%.1f %% slower", 100 * (planned[i].step_time_s / result_.best->step_time_s - 1));
        result_.others.push_back(std::move(planned[i]));
      }
    }
    AddMisses();
    if (result_.own) JudgeOwn();
  }

  // Those that would be faster, the nearest to fitting first; else the nearest of all.
  void AddMisses() {
    double best = result_.best ? result_.best->step_time_s : 0;
    std::stable_sort(misses_.begin(), misses_.end(), [&](const Tried& a, const Tried& b) {
      bool a_faster = best == 0 || a.time < best, b_faster = best == 0 || b.time < best;
      return a_faster != b_faster ? a_faster : a.over < b.over;
    });
    double limit = cluster_.node.memory_limit_gib();
    for (const Tried& miss : misses_) {
      if (std::count_if(result_.others.begin(), result_.others.end(), [](const Proposal& p) {
            return !p.fits;
          }) == static_cast<std::ptrdiff_t>(kMissesShown)) {
        break;
      }
      result_.others.push_back({.choice = miss.choice,
                                .overrides = OverridesOf(recipe_, miss.choice, global_, layers_),
                                .step_time_s = miss.time,
                                .tokens_per_s = static_cast<double>(global_ * seq_) / miss.time,
                                .memory_gib = miss.memory,
                                .limit_gib = limit,
                                .fits = false,
                                .verdict = absl::StrFormat("does not fit by %.1f GiB", miss.over)});
    }
  }

  void JudgeOwn() {
    Proposal& own = *result_.own;
    if (!own.fits) {
      own.verdict = absl::StrFormat("does not fit by %.1f GiB", own.memory_gib - own.limit_gib);
    } else if (result_.best->step_time_s < own.step_time_s) {
      own.verdict = absl::StrFormat("%.1f %% slower",
                                    100 * (own.step_time_s / result_.best->step_time_s - 1));
    } else {
      own.verdict = "the fastest that fits";
    }
  }

  const recipe::Recipe& recipe_;
  const recipe::Recipe reduced_;
  const Cluster& cluster_;
  const PlanOptions& options_;
  std::shared_ptr<const model::ModelShape> shape_;
  Training training_;
  LayoutChoice own_;
  int64_t layers_ = 0, global_ = 0, seq_ = 0;
  int nodes_ = 1, ranks_per_node_ = 1, world_ = 1;
  std::vector<Tried> shapes_, hits_, misses_;
  SearchResult result_;
};

}  // namespace

recipe::Recipe WithChoice(const recipe::Recipe& recipe, const LayoutChoice& choice,
                          int64_t global_batch_size, int64_t layers) {
  recipe::Value root = recipe.root();
  auto number = [&](std::string_view name, int64_t value) {
    Set(root, {"distributed", name}, value);
  };
  Set(root, {"distributed", "strategy"}, choice.strategy);
  Remove(root, "distributed", "dp_size");
  number("dp_replicate_size", choice.dp_replicate);
  number("tp_size", choice.tp);
  number("cp_size", choice.cp);
  number("pp_size", choice.pp);
  number("ep_size", choice.ep);
  Set(root, {"distributed", "activation_checkpointing"}, std::string(Name(choice.recompute)));
  if (choice.pp > 1) {
    auto pipeline = [&](std::string_view name, decltype(recipe::Value::data) data) {
      Set(root, {"distributed", "pipeline", name}, std::move(data));
    };
    bool single = choice.virtual_stages == 1;
    pipeline("pp_schedule", std::string(single ? "1f1b" : "interleaved1f1b"));
    pipeline("pp_microbatch_size", choice.micro_batch_size);
    if (single) {
      pipeline("layers_per_stage", std::monostate());
    } else {
      pipeline("layers_per_stage", LayersPerStage(layers, choice));
      pipeline("round_virtual_stages_to_pp_multiple", std::string("up"));
    }
  }
  Remove(root, "step_scheduler", "grad_acc_steps");
  Set(root, {"step_scheduler", "global_batch_size"}, global_batch_size);
  Set(root, {"step_scheduler", "local_batch_size"}, choice.local_batch_size);
  if (recipe.Has("dataloader.batch_size")) {
    Set(root, {"dataloader", "batch_size"}, choice.local_batch_size);
  }
  return recipe::Recipe(recipe.file(), std::move(root), recipe.kind());
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

SearchResult SearchLayouts(const recipe::Recipe& recipe, const Cluster& cluster,
                           const PlanOptions& options) {
  return LayoutSearch(recipe, cluster, options).Run();
}

}  // namespace am::plan

#include "launcher/plan/make_workload.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "launcher/plan/plan.h"

namespace am::plan {
namespace {

using model::Role;
using recipe::Recipe;

bool GivenTrue(const Recipe& recipe, std::string_view key) {
  const recipe::Value* value = recipe.Find(key);
  const bool* flag = value ? std::get_if<bool>(&value->data) : nullptr;
  return flag && *flag;
}

bool GivenFalse(const Recipe& recipe, std::string_view key) {
  const recipe::Value* value = recipe.Find(key);
  const bool* flag = value ? std::get_if<bool>(&value->data) : nullptr;
  return flag && !*flag;
}

double GivenNumber(const Recipe& recipe, std::string_view key, double otherwise) {
  const recipe::Value* value = recipe.Find(key);
  nlohmann::json number = value ? recipe::ToJson(*value) : nlohmann::json();
  return number.is_number() ? number.get<double>() : otherwise;
}

// Bytes of a number; 4 for what is not known.
double BytesOf(std::string_view dtype) {
  if (dtype == "bfloat16" || dtype == "float16" || dtype == "int16") return 2;
  if (dtype == "float64" || dtype == "int64") return 8;
  if (dtype == "int8" || dtype == "uint8" || absl::StartsWith(std::string(dtype), "float8")) {
    return 1;
  }
  return 4;
}

// ---- precision

std::string CheckpointDtype(const model::ModelShape& shape) {
  for (const char* key : {"torch_dtype", "dtype"}) {
    auto found = shape.config.find(key);
    if (found != shape.config.end() && found->is_string()) return found->get<std::string>();
  }
  return "bfloat16";
}

// Of the weights that are trained.
std::string TrainedDtype(const Recipe& recipe, const model::ModelShape& shape) {
  for (const char* key : {"model.torch_dtype", "model.dtype"}) {
    std::optional<std::string> dtype = GivenText(recipe, key);
    if (dtype && *dtype != "auto") return *dtype;
  }
  return CheckpointDtype(shape);
}

std::string ComputeDtype(const Recipe& recipe, const std::string& trained) {
  return GivenText(recipe, "distributed.mp_policy.param_dtype").value_or(trained);
}

Precision PrecisionOf(const Recipe& recipe, const std::string& compute) {
  if (recipe.Has("model.backend.te_fp8")) {
    std::string scaling = GivenText(recipe, "model.backend.te_fp8.recipe").value_or("current");
    return scaling == "mxfp8" ? Precision::kMxfp8 : Precision::kFp8;
  }
  if (GivenTrue(recipe, "fp8.enabled")) return Precision::kFp8;
  if (compute == "float32") return Precision::kFloat32;
  return compute == "float16" ? Precision::kFloat16 : Precision::kBfloat16;
}

// ---- bytes

// A number of a base in fewer bits, with its scales: one of 4 bytes a block of 64, or, doubly
// quantised, one of a byte a block and one of 4 bytes a 256 blocks.
double FrozenBytes(const Recipe& recipe, double as_it_is) {
  if (GivenTrue(recipe, "quantization.load_in_4bit")) {
    bool twice = !GivenFalse(recipe, "quantization.bnb_4bit_use_double_quant");
    return 0.5 + (twice ? 1.0 / 64 + 4.0 / (64 * 256) : 4.0 / 64);
  }
  return GivenTrue(recipe, "quantization.load_in_8bit") ? 1 : as_it_is;
}

StateBytes BytesOf(const Recipe& recipe, const std::string& trained, const std::string& compute) {
  StateBytes bytes;
  bytes.parameter = BytesOf(compute);
  bytes.gradient =
      BytesOf(GivenText(recipe, "distributed.mp_policy.reduce_dtype").value_or("float32"));
  bytes.frozen = FrozenBytes(recipe, BytesOf(trained));
  auto of = [&](const char* key) { return BytesOf(GivenText(recipe, key).value_or("float32")); };
  // Weights that are kept wider than they are computed with are their own master copy.
  double stored = BytesOf(trained), master = of("optimizer.master_weight_dtype");
  if (stored > bytes.parameter) bytes.resident = stored;
  bytes.master = master > std::max(stored, bytes.parameter) ? master : 0;
  bytes.moment1 = of("optimizer.exp_avg_dtype");
  bytes.moment2 = of("optimizer.exp_avg_sq_dtype");
  std::string optimizer = recipe.Part("optimizer");
  if (optimizer == "sgd") {
    bytes.moment1 = GivenNumber(recipe, "optimizer.momentum", 0) > 0 ? 4 : 0;
    bytes.moment2 = 0;
  } else if (optimizer == "muon" || optimizer == "normuon" || optimizer == "dion" ||
             optimizer == "dion2") {
    bytes.moment2 = 0;  // a momentum alone
  } else if (optimizer == "flash_adamw") {
    // 8-bit moments with a scale of 2 bytes a group of 32, and the low byte of the master copy.
    bytes.master = bytes.parameter < 4 ? 1 : 0;
    bytes.moment1 = bytes.moment2 = 1 + 2.0 / 32;
  } else if (optimizer == "fused_adam") {
    // The low half of a float32 beside bfloat16 weights.
    if (GivenTrue(recipe, "optimizer.store_param_remainders")) bytes.master = 2;
    if (GivenFalse(recipe, "optimizer.master_weights") &&
        !recipe.Has("optimizer.master_weight_dtype")) {
      bytes.master = 0;
    }
  }
  if (GivenTrue(recipe, "optimizer.amsgrad")) bytes.moment2 *= 2;
  return bytes;
}

// ---- kernels

AttentionKernel AttentionOf(const Recipe& recipe, const NodeShape& node) {
  if (std::optional<std::string> attn = GivenText(recipe, "model.backend.attn")) {
    if (*attn == "te" || *attn == "cudnn") return AttentionKernel::kTransformerEngine;
    if (*attn == "flex") return AttentionKernel::kFlex;
    if (*attn == "tilelang") return AttentionKernel::kTileLang;
    if (*attn == "eager") return AttentionKernel::kEager;
    return *attn == "magi" ? AttentionKernel::kFlash : AttentionKernel::kSdpa;
  }
  if (std::optional<std::string> attn = GivenText(recipe, "model.attn_implementation")) {
    if (absl::StartsWith(*attn, "flash") || *attn == "magi" || *attn == "ffpa") {
      return AttentionKernel::kFlash;
    }
    if (absl::StartsWith(*attn, "flex")) return AttentionKernel::kFlex;
    if (*attn == "eager") return AttentionKernel::kEager;
    return *attn == "te" ? AttentionKernel::kTransformerEngine : AttentionKernel::kSdpa;
  }
  return node.gpus > 0 ? AttentionKernel::kTransformerEngine : AttentionKernel::kSdpa;
}

Dispatcher DispatcherOf(const Recipe& recipe) {
  std::string name = GivenText(recipe, "model.backend.dispatcher").value_or("torch");
  if (name == "deepep" || name == "uccl_ep") return Dispatcher::kDeepEp;
  return name == "hybridep" || name == "mok" ? Dispatcher::kHybridEp : Dispatcher::kTorch;
}

Kernels KernelsOf(const Recipe& recipe, const NodeShape& node) {
  Kernels kernels{.attention = AttentionOf(recipe, node), .dispatcher = DispatcherOf(recipe)};
  std::optional<std::string> linear = GivenText(recipe, "model.backend.linear");
  std::optional<std::string> norm = GivenText(recipe, "model.backend.rms_norm");
  kernels.fused_elementwise = linear ? *linear != "torch" || norm == "te"
                                     : kernels.attention == AttentionKernel::kTransformerEngine;
  // The Hugging Face library's own models run operation by operation.
  if (GivenTrue(recipe, "model.force_hf")) kernels.fused_elementwise = false;
  // Without Transformer Engine's linears, te_fp8 reaches the experts alone.
  kernels.quantized_dense = !recipe.Has("model.backend.te_fp8") || !linear || *linear == "te";
  kernels.grouped_experts = GivenText(recipe, "model.backend.experts") != "torch";
  kernels.prefetch = GivenTrue(recipe, "distributed.enable_fsdp2_prefetch") ||
                     recipe.String("distributed.strategy") == "megatron_fsdp";
  std::string loss = recipe.Part("loss_fn");
  kernels.fused_loss = absl::StrContains(loss, "linear_ce") || loss == "chunked_ce";
  kernels.compiled = GivenTrue(recipe, "compile.enabled") ||
                     GivenTrue(recipe, "distributed.enable_compile") ||
                     GivenTrue(recipe, "model.backend.compile_attn");
  return kernels;
}

// ---- the rest

bool TrainsTowers(const Recipe& recipe, const model::ModelShape& shape) {
  if (shape.towers.empty()) return false;
  for (const char* section : {"freeze_config", "model.freeze_config"}) {
    if (recipe.Has(section)) {
      return GivenFalse(recipe, absl::StrCat(section, ".freeze_vision_tower"));
    }
  }
  return recipe.kind() == "multimodal" && !recipe.Has("peft");
}

int64_t TrainedMtpDepths(const Recipe& recipe) {
  // A depth in config.json alone is not trained: the recipe has to ask for it.
  for (const char* section : {"model", "model.text_config", "model.config"}) {
    for (const char* key :
         {"num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules"}) {
      double depths = GivenNumber(recipe, absl::StrCat(section, ".", key), 0);
      if (depths > 0) return static_cast<int64_t>(depths);
    }
  }
  return 0;
}

bool CanTakeAdapter(const model::Weight& weight) {
  switch (weight.role) {
    case Role::kAttention:
    case Role::kMixer:
    case Role::kMlp:
    case Role::kExpert:
    case Role::kSharedExpert:
    case Role::kHead:
      return weight.in > 0 && !absl::StrContains(weight.name, "conv");
    case Role::kEmbedding:
    case Role::kRouter:
    case Role::kNorm:
    case Role::kOther:
      return false;
  }
  return false;
}

// Calls `visit(weight, full name)` for each distinct linear module.
template <typename Visit>
void VisitLinears(const model::ModelShape& shape, const Visit& visit) {
  for (size_t kind = 0; kind < shape.kinds.size(); ++kind) {
    auto depth = std::find(shape.layers.begin(), shape.layers.end(), static_cast<int>(kind));
    std::string prefix = absl::StrCat("model.layers.", depth - shape.layers.begin(), ".");
    for (const model::Weight& weight : shape.kinds[kind].weights) {
      if (CanTakeAdapter(weight)) visit(weight, absl::StrCat(prefix, weight.name));
    }
  }
  for (const model::Weight& weight : shape.head) {
    if (CanTakeAdapter(weight)) visit(weight, weight.name);
  }
}

// `*` and `.*` are any run of characters, `.` is any one character.
bool Glob(std::string_view pattern, std::string_view text) {
  if (pattern.empty()) return text.empty();
  if (pattern.starts_with(".*")) return Glob(pattern.substr(1), text);
  if (pattern.front() == '*') {
    for (size_t i = 0; i <= text.size(); ++i) {
      if (Glob(pattern.substr(1), text.substr(i))) return true;
    }
    return false;
  }
  if (text.empty() || (pattern.front() != '.' && pattern.front() != text.front())) return false;
  return Glob(pattern.substr(1), text.substr(1));
}

bool MatchesAny(const std::vector<std::string>& patterns, std::string_view module) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return MatchesPattern(pattern, module); });
}

void AddOnce(std::vector<std::string>& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

}  // namespace

std::optional<std::string> GivenText(const Recipe& recipe, std::string_view key) {
  const recipe::Value* value = recipe.Find(key);
  const auto* text = value ? std::get_if<std::string>(&value->data) : nullptr;
  return text ? std::optional<std::string>(*text) : std::nullopt;
}

bool MatchesPattern(std::string_view pattern, std::string_view module) {
  if (pattern.find('*') == std::string_view::npos) {
    return pattern == module || pattern == module.substr(module.rfind('.') + 1);
  }
  return Glob(pattern, module);
}

std::vector<std::string> LinearNames(const model::ModelShape& shape) {
  std::vector<std::string> names;
  VisitLinears(
      shape, [&](const model::Weight& weight, const std::string&) { AddOnce(names, weight.name); });
  return names;
}

std::optional<Adapter> AdapterOf(const Recipe& recipe, const model::ModelShape& shape) {
  if (!recipe.Has("peft")) return std::nullopt;
  Adapter adapter{.rank = static_cast<int64_t>(GivenNumber(recipe, "peft.dim", 8))};
  bool all = GivenTrue(recipe, "peft.match_all_linear");
  std::vector<std::string> wanted, excluded;
  if (recipe.Part("peft") == "lora") {
    wanted = recipe.Strings("peft.target_modules");
    excluded = recipe.Strings("peft.exclude_modules");
  }
  if (wanted.empty() && excluded.empty()) wanted = {"*_proj"};
  VisitLinears(shape, [&](const model::Weight& weight, const std::string& module) {
    if (all || (excluded.empty() ? MatchesAny(wanted, module) : !MatchesAny(excluded, module))) {
      AddOnce(adapter.modules, weight.name);
    }
  });
  return adapter;
}

bool ReadsRealData(const Recipe& recipe) {
  if (!recipe.Has("dataset")) return false;
  std::string target =
      GivenText(recipe, "dataset._target_").value_or(GivenText(recipe, "dataset").value_or(""));
  return !absl::StrContains(target, "mock") && !absl::StrContains(target, "Mock");
}

std::vector<int> CutLayers(int layers, int stages) {
  std::vector<int> cut(static_cast<size_t>(std::max(1, stages)));
  int count = static_cast<int>(cut.size());
  for (int stage = 0; stage < count; ++stage) {
    cut[static_cast<size_t>(stage)] = layers / count + (stage < layers % count ? 1 : 0);
  }
  return cut;
}

AxisBandwidth BandwidthOf(const std::vector<PlannedAxis>& axes, const NodeShape& node) {
  AxisBandwidth out;
  for (const PlannedAxis& axis : axes) {
    if (axis.size <= 1) continue;
    double alone = axis.gb_per_s;
    double together = alone;
    if (axis.fabric == "network") {
      together *= std::max(1, axis.ranks_in_domain);
      double inside = node.has_nvlink() ? node.nvlink_gb_per_s : node.pcie_gb_per_s;
      if (inside > 0) together = std::min(together, std::max(inside, alone));
    }
    switch (axis.axis) {
      case MeshAxis::kTp:
        out.tp = together;
        break;
      case MeshAxis::kCp:
        out.cp = alone;
        break;
      case MeshAxis::kPp:
        out.pp = alone;
        break;
      case MeshAxis::kDpShard:
        out.dp_shard = together;
        break;
      case MeshAxis::kDpReplicate:
        out.dp_replicate = together;
        break;
      case MeshAxis::kEp:
        out.ep = alone;
        out.ep_nodes = (axis.size + axis.ranks_in_domain - 1) / std::max(1, axis.ranks_in_domain);
        break;
      case MeshAxis::kEpShard:
        break;
    }
  }
  return out;
}

Training TrainingOf(const Recipe& recipe, std::shared_ptr<const model::ModelShape> shape,
                    const NodeShape& node) {
  Training training;
  Workload& workload = training.workload;
  workload.node = node;
  workload.strategy = recipe.String("distributed.strategy");
  std::string trained = TrainedDtype(recipe, *shape);
  std::string compute = ComputeDtype(recipe, trained);
  workload.precision = PrecisionOf(recipe, compute);
  workload.bytes = BytesOf(recipe, trained, compute);
  workload.adapter = AdapterOf(recipe, *shape);
  if (std::optional<std::string> recompute =
          GivenText(recipe, "distributed.activation_checkpointing")) {
    workload.recompute = *recompute == "full"        ? Recompute::kFull
                         : *recompute == "selective" ? Recompute::kSelective
                                                     : Recompute::kNone;
  } else {
    workload.recompute_assumed = true;
  }
  workload.balanced_routing = GivenTrue(recipe, "model.backend.fake_balanced_gate");
  workload.real_data = ReadsRealData(recipe);
  workload.mtp_depths = TrainedMtpDepths(recipe);
  workload.kernels = KernelsOf(recipe, node);
  workload.keeps_gathered = GivenFalse(recipe, "distributed.reshard_after_forward") ||
                            GivenNumber(recipe, "distributed.zero_dp_strategy", 3) < 3;
  workload.gradient_buckets =
      workload.strategy == "ddp" && !GivenTrue(recipe, "distributed.gradient_as_bucket_view");
  workload.sequence_parallel = GivenTrue(recipe, "distributed.sequence_parallel");
  workload.trains_towers = TrainsTowers(recipe, *shape);
  workload.shape = std::move(shape);
  training.keeps_experts_gathered = !GivenTrue(recipe, "distributed.moe.reshard_after_forward");
  training.defers_gradient_sync = !GivenFalse(recipe, "distributed.defer_fsdp_grad_sync");
  return training;
}

Layout LayoutOf(const Plan& plan, const NodeShape& node) {
  return {.dims = plan.dims,
          .bandwidth = BandwidthOf(plan.axes, node),
          .ranks_per_node = plan.ranks_per_node,
          .seq_length = plan.seq_length.value_or(0),
          .global_batch_size = plan.batch.global_batch_size,
          .local_batch_size = plan.batch.local_batch_size,
          .micro_batch_size = plan.micro_batch_size.value_or(plan.batch.local_batch_size),
          .grad_acc_steps = std::max<int64_t>(1, plan.batch.grad_acc_steps),
          .virtual_stages = plan.virtual_stages.value_or(1)};
}

Workload LayOut(const Training& training, const Layout& layout) {
  Workload workload = training.workload;
  workload.dims = layout.dims;
  workload.bandwidth = layout.bandwidth;
  workload.ranks_per_node = layout.ranks_per_node;
  workload.seq_length = layout.seq_length;
  workload.global_batch_size = layout.global_batch_size;
  workload.local_batch_size = layout.local_batch_size;
  workload.micro_batch_size = layout.micro_batch_size;
  workload.grad_acc_steps = layout.grad_acc_steps;
  workload.virtual_stages = layout.virtual_stages;
  workload.layers_of_stage = CutLayers(static_cast<int>(workload.shape->layers.size()),
                                       layout.dims.pp * layout.virtual_stages);
  workload.keeps_gathered = workload.keeps_gathered || layout.dims.pp > 1 ||
                            (layout.dims.ep > 1 && training.keeps_experts_gathered);
  bool several = layout.grad_acc_steps > 1 || layout.micro_batch_size < layout.local_batch_size;
  workload.keeps_full_gradients =
      training.defers_gradient_sync && several && workload.strategy != "ddp";
  return workload;
}

Workload MakeWorkload(const Recipe& recipe, const Plan& plan,
                      std::shared_ptr<const model::ModelShape> shape, const NodeShape& node) {
  return LayOut(TrainingOf(recipe, std::move(shape), node), LayoutOf(plan, node));
}

}  // namespace am::plan

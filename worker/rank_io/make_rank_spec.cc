#include "worker/rank_io/make_rank_spec.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>

#include "worker/rank_io/make_inputs.h"

namespace am {
namespace {

using nlohmann::json;
using recipe::Diagnostics;
using recipe::Recipe;
using recipe::Severity;

// The engine counts the copies that DDP makes as replicas; the plan, as the recipe does, as the one
// dp axis.
LayoutSpec MakeLayout(const plan::Plan& plan) {
  bool ddp = plan.strategy == "ddp";
  LayoutSpec layout{.world_size = plan.dims.world(),
                    .nodes = plan.nodes,
                    .dp_replicate = ddp ? plan.dims.dp() : plan.dims.dp_replicate,
                    .dp_shard = ddp ? 1 : plan.dims.dp_shard,
                    .cp_size = plan.dims.cp,
                    .tp_size = plan.dims.tp,
                    .pp_size = plan.dims.pp,
                    .ep_size = plan.dims.ep};
  for (const plan::PlannedRank& rank : plan.ranks) {
    layout.ranks.push_back({.rank = rank.rank,
                            .node = rank.node,
                            .local_rank = rank.local_rank,
                            .pp = rank.place.pp,
                            .dp_replicate = ddp ? rank.place.dp_shard : rank.place.dp_replicate,
                            .dp_shard = ddp ? 0 : rank.place.dp_shard,
                            .cp = rank.place.cp,
                            .tp = rank.place.tp});
  }
  return layout;
}

DistSpec MakeDist(const Recipe& recipe, const plan::Plan& plan, int cores, Diagnostics& out) {
  DistSpec dist{.strategy = plan.strategy};
  std::string backend = recipe.String("dist_env.backend");
  dist.backend = plan.on_gpus && backend != "gloo" ? "nccl" : "gloo";
  if (!plan.on_gpus && backend == "nccl" && recipe.Has("dist_env.backend")) {
    recipe.Report(out, Severity::kWarning, "dist_env.backend", "nccl needs GPUs and there are none",
                  "gloo is used");
  }
  double minutes = recipe.OptFloat("dist_env.timeout_minutes").value_or(1);
  dist.timeout_ms = std::max<int64_t>(1, std::llround(minutes * 60'000));
  dist.threads = cores > 0 ? std::max(1, cores / plan.ranks_per_node) : 0;
  std::string recompute = recipe.OptString("distributed.activation_checkpointing").value_or("off");
  dist.activation_checkpointing = recompute != "off";
  if (recompute == "selective") {
    recipe.Report(out, Severity::kWarning, "distributed.activation_checkpointing",
                  "selective is run as full: equal results, less memory, more arithmetic");
  }
  dist.broadcast_buffers = recipe.Bool("distributed.broadcast_buffers");
  dist.reshard_after_forward = recipe.OptBool("distributed.reshard_after_forward");
  dist.param_dtype = recipe.OptString("distributed.mp_policy.param_dtype");
  dist.reduce_dtype = recipe.OptString("distributed.mp_policy.reduce_dtype");
  dist.output_dtype = recipe.OptString("distributed.mp_policy.output_dtype");
  return dist;
}

// Switches that choose a GPU kernel: on a CPU the same result comes from another path.
void WarnOfKernels(const Recipe& recipe, const plan::Plan& plan, Diagnostics& out) {
  if (plan.on_gpus) return;
  auto warn = [&](std::string_view key, const std::string& value) {
    recipe.Report(out, Severity::kWarning, key,
                  absl::StrCat(value, " needs a GPU and there is none"),
                  "the same result is computed another way");
  };
  if (recipe.Has("peft") && recipe.Part("peft") == "lora" && recipe.Bool("peft.use_triton")) {
    warn("peft.use_triton", "the Triton kernel");
  }
  for (const char* key : {"model.backend.attn", "model.backend.linear", "model.backend.rms_norm",
                          "model.backend.experts"}) {
    if (recipe.OptString(key) == "te") warn(key, "te");
  }
  std::string attention = recipe.OptString("model.attn_implementation").value_or("sdpa");
  if (attention != "sdpa" && attention != "eager") warn("model.attn_implementation", attention);
}

std::string TrainedDtype(const Recipe& recipe, Diagnostics& out) {
  std::string key = recipe.Has("model.dtype") && !recipe.Has("model.torch_dtype")
                        ? "model.dtype"
                        : "model.torch_dtype";
  std::string dtype = recipe.OptString(key).value_or("auto");
  if (dtype != "auto" && dtype != "float32" && dtype != "bfloat16" && dtype != "float16") {
    recipe.Error(out, key, absl::StrCat(dtype, " is no dtype that weights are trained in"),
                 "use float32, bfloat16, float16 or auto");
  }
  return dtype;
}

std::optional<PeftSpec> MakePeft(const Recipe& recipe, const InputFinder& finder) {
  if (!recipe.Has("peft")) return std::nullopt;
  PeftSpec peft{.target_modules = recipe.Strings("peft.target_modules"),
                .exclude_modules = recipe.Strings("peft.exclude_modules"),
                .match_all_linear = recipe.Bool("peft.match_all_linear"),
                .dim = recipe.Int("peft.dim"),
                .alpha = recipe.Float("peft.alpha"),
                .dropout = recipe.Float("peft.dropout"),
                .dropout_position = recipe.String("peft.dropout_position"),
                .lora_A_init = recipe.String("peft.lora_A_init"),
                .lora_dtype = recipe.OptString("peft.lora_dtype")};
  if (peft.target_modules.empty() && peft.exclude_modules.empty() && !peft.match_all_linear) {
    peft.target_modules = {"*_proj"};
  }
  if (auto path = recipe.OptString("peft.adapter_path")) peft.adapter_path = finder.Absolute(*path);
  return peft;
}

LoaderSpec MakeLoader(const Recipe& recipe, const std::string& section, bool shuffle,
                      int64_t batch_size) {
  LoaderSpec loader{.shuffle = shuffle, .batch_size = batch_size};
  if (recipe.Has(section + ".shuffle")) loader.shuffle = recipe.Bool(section + ".shuffle");
  loader.drop_last = recipe.Bool(section + ".drop_last");
  if (recipe.Has(section + ".batch_size")) loader.batch_size = recipe.Int(section + ".batch_size");
  loader.num_workers = recipe.Int(section + ".num_workers");
  return loader;
}

ScheduleSpec MakeSchedule(const Recipe& recipe) {
  ScheduleSpec schedule{
      .num_epochs = recipe.OptInt("step_scheduler.num_epochs"),
      .max_steps = recipe.OptInt("step_scheduler.max_steps"),
      .ckpt_every_steps = recipe.OptInt("step_scheduler.ckpt_every_steps"),
      .save_checkpoint_every_epoch = recipe.Bool("step_scheduler.save_checkpoint_every_epoch"),
      .val_every_steps = recipe.OptInt("step_scheduler.val_every_steps")};
  if (!schedule.num_epochs && !schedule.max_steps) schedule.num_epochs = 10;
  return schedule;
}

LossSpec MakeLoss(const Recipe& recipe) {
  LossSpec loss{.kind = recipe.Part("loss_fn"), .ignore_index = recipe.Int("loss_fn.ignore_index")};
  if (loss.kind == "masked_ce") loss.fp32_upcast = recipe.Bool("loss_fn.fp32_upcast");
  if (loss.kind == "chunked_ce") loss.chunk_len = recipe.Int("loss_fn.chunk_len");
  if (loss.kind == "fused_linear_ce") {
    loss.logit_softcapping = recipe.OptFloat("loss_fn.logit_softcapping").value_or(0);
  }
  return loss;
}

OptimizerSpec MakeOptimizer(const Recipe& recipe) {
  OptimizerSpec optimizer{.kind = recipe.Part("optimizer")};
  if (!recipe.Has("optimizer")) return optimizer;  // Adam with lr 1e-5
  optimizer.lr = recipe.Float("optimizer.lr");
  optimizer.weight_decay = recipe.Float("optimizer.weight_decay");
  optimizer.maximize = recipe.Bool("optimizer.maximize");
  auto dtype = [&](const char* key) { return recipe.OptString(key).value_or("float32"); };
  optimizer.master_weight_dtype = dtype("optimizer.master_weight_dtype");
  if (optimizer.kind == "sgd") {
    optimizer.momentum = recipe.Float("optimizer.momentum");
    optimizer.dampening = recipe.Float("optimizer.dampening");
    optimizer.nesterov = recipe.Bool("optimizer.nesterov");
    return optimizer;
  }
  std::vector<double> betas = recipe.Floats("optimizer.betas");
  optimizer.beta1 = betas.at(0);
  optimizer.beta2 = betas.at(1);
  optimizer.eps = recipe.Float("optimizer.eps");
  optimizer.amsgrad = recipe.Bool("optimizer.amsgrad");
  optimizer.exp_avg_dtype = dtype("optimizer.exp_avg_dtype");
  optimizer.exp_avg_sq_dtype = dtype("optimizer.exp_avg_sq_dtype");
  return optimizer;
}

std::optional<LrSchedulerSpec> MakeLrScheduler(const Recipe& recipe) {
  if (!recipe.Has("lr_scheduler")) return std::nullopt;
  auto integer = [&](std::string_view key) {
    return recipe.OptInt(absl::StrCat("lr_scheduler.", std::string(key)));
  };
  auto number = [&](std::string_view key) {
    return recipe.OptFloat(absl::StrCat("lr_scheduler.", std::string(key)));
  };
  return LrSchedulerSpec{
      .lr_decay_style = recipe.String("lr_scheduler.lr_decay_style"),
      .lr_warmup_steps = integer("lr_warmup_steps"),
      .lr_decay_steps = integer("lr_decay_steps"),
      .init_lr = number("init_lr"),
      .max_lr = number("max_lr"),
      .min_lr = number("min_lr"),
      .start_wd = number("start_wd"),
      .end_wd = number("end_wd"),
      .wd_incr_steps = integer("wd_incr_steps"),
      .wd_incr_style = recipe.String("lr_scheduler.wd_incr_style"),
      .wsd_decay_steps = integer("wsd_decay_steps"),
      .lr_wsd_decay_style = recipe.String("lr_scheduler.lr_wsd_decay_style"),
      .use_checkpoint_opt_param_scheduler =
          recipe.Bool("lr_scheduler.use_checkpoint_opt_param_scheduler"),
      .override_opt_param_scheduler = recipe.Bool("lr_scheduler.override_opt_param_scheduler")};
}

CheckpointSpec MakeCheckpoint(const Recipe& recipe, const InputFinder& finder, bool fresh) {
  return {.enabled = recipe.Bool("checkpoint.enabled"),
          .dir = finder.Absolute(recipe.String("checkpoint.checkpoint_dir")),
          .save_consolidated = recipe.String("checkpoint.save_consolidated"),
          .restore_from = recipe.OptString("checkpoint.restore_from").value_or(""),
          .fresh = fresh,
          .is_async = recipe.Bool("checkpoint.is_async"),
          .max_recent_checkpoints = recipe.OptInt("checkpoint.max_recent_checkpoints"),
          .export_dtype = recipe.OptString("checkpoint.export_dtype"),
          .best_metric_key = recipe.String("checkpoint.best_metric_key"),
          .config_yaml = recipe.ToYaml()};
}

// What has to be the same for a run to go on from a checkpoint.
json Fingerprint(const RankSpec& spec, const json& whole, const model::ModelConfig& model) {
  json shape = json::object();
  for (const char* key :
       {"architectures", "model_type", "hidden_size", "num_hidden_layers", "num_attention_heads",
        "num_key_value_heads", "head_dim", "intermediate_size", "vocab_size", "tie_word_embeddings",
        "rope_theta", "rope_scaling"}) {
    if (auto found = model.json.find(key); found != model.json.end() && !found->is_null()) {
      shape[key] = *found;
    }
  }
  json data = whole.at("dataset");
  for (const char* key : {"name", "lossy_utf8"}) data.erase(key);
  json peft = whole.at("peft");
  if (peft.is_object()) peft.erase("adapter_path");
  return {{"model", shape},
          {"peft", peft},
          {"data", data},
          {"global_batch_size", spec.batch.global_batch_size},
          {"seed", spec.seed}};
}

// A top-level seed wins over rng.seed.
uint64_t SeedOf(const Recipe& recipe) {
  bool top = recipe.Has("seed") || !recipe.Has("rng.seed");
  return static_cast<uint64_t>(recipe.Int(top ? "seed" : "rng.seed"));
}

// The loader refuses what is not trainable when it is told to; this holds however the recipe was
// loaded.
bool CheckParts(const Recipe& recipe, Diagnostics& out) {
  struct {
    std::string_view section;
    std::vector<std::string_view> parts;
  } const kTrainable[] = {
      {"recipe", {"finetune"}},
      {"model", {"from_pretrained", "from_config"}},
      {"peft", {"lora"}},
      {"loss_fn", {"masked_ce", "chunked_ce", "fused_linear_ce", "parallel_ce"}},
      {"optimizer", {"adam", "adamw", "sgd"}},
  };
  bool fine = true;
  for (const auto& [section, parts] : kTrainable) {
    std::string part = section == "recipe" ? recipe.kind() : recipe.Part(section);
    if (std::find(parts.begin(), parts.end(), part) != parts.end()) continue;
    recipe.Error(out, section, absl::StrCat(part, " is not trainable yet"));
    fine = false;
  }
  return fine;
}

}  // namespace

RankSpecResult MakeRankSpec(const Recipe& recipe, const plan::Plan& plan,
                            const RankSpecOptions& options) {
  RankSpecResult result;
  Diagnostics& out = result.diagnostics;
  if (!CheckParts(recipe, out)) return result;
  InputFinder finder(recipe, options.working_directory, options.environment, out);
  std::optional<InputFinder::Model> model = finder.FindModel();
  std::optional<DatasetSpec> dataset = finder.FindDataset("dataset", "default");

  RankSpec spec{.job = options.job, .attempt = options.attempt, .seed = SeedOf(recipe)};
  for (const Recipe::NamedSection& set : recipe.ValidationSets()) {
    if (auto found = finder.FindDataset(set.key, set.name)) {
      spec.validation_datasets.push_back(std::move(*found));
    }
  }
  std::string torch_dtype = TrainedDtype(recipe, out);
  std::string chat_template = finder.ChatTemplate();
  WarnOfKernels(recipe, plan, out);
  if (recipe.Has("rng.ranked") && recipe.Bool("rng.ranked")) {
    recipe.Report(out, Severity::kInfo, "rng.ranked",
                  "changes nothing: random numbers are counted per sample, so all layouts agree");
  }
  spec.layout = MakeLayout(plan);
  spec.batch = {.global_batch_size = plan.batch.global_batch_size,
                .local_batch_size = plan.batch.local_batch_size,
                .grad_acc_steps = plan.batch.grad_acc_steps};
  spec.dist = MakeDist(recipe, plan, options.cores, out);
  if (recipe::HasErrors(out) || !model || !dataset) return result;

  spec.model = std::move(model->spec);
  spec.model.torch_dtype = torch_dtype;
  spec.model.chat_template = chat_template;
  std::string attention = recipe.OptString("model.attn_implementation").value_or("sdpa");
  spec.model.attn_implementation = attention == "eager" ? "eager" : "sdpa";
  spec.peft = MakePeft(recipe, finder);
  spec.dataset = std::move(*dataset);
  spec.loader = MakeLoader(recipe, "dataloader", true, spec.batch.local_batch_size);
  spec.validation_loader =
      MakeLoader(recipe, "validation_dataloader", false, spec.batch.local_batch_size);
  spec.schedule = MakeSchedule(recipe);
  spec.loss = MakeLoss(recipe);
  spec.optimizer = MakeOptimizer(recipe);
  spec.lr_scheduler = MakeLrScheduler(recipe);
  spec.max_grad_norm = recipe.OptFloat("clip_grad_norm.max_norm");
  if (spec.max_grad_norm == 0.0) spec.max_grad_norm.reset();
  spec.checkpoint = MakeCheckpoint(recipe, finder, options.fresh);
  spec.checkpoint.run_fingerprint = Fingerprint(spec, ToJson(spec), model->config);
  result.spec = std::move(spec);
  return result;
}

}  // namespace am

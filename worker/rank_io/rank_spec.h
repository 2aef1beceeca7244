// RankSpec: all that a rank is told about its job. The controller resolves recipe and plan into it, the agent hands it to
// every rank as `rank_spec.json`, and am-rank reads nothing else: no YAML, no defaults of its own.
//
// Every field is resolved: a default has been applied, a null derived, a path made absolute. Only RANK, LOCAL_RANK and
// WORLD_SIZE and the inherited descriptors (rank_env.h) differ between the ranks of a job.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace am {

// Where one rank stands in the device mesh (pp, dp_replicate, dp_shard, cp, tp), tp fastest.
struct RankPlace {
  int rank = 0;
  int node = 0;
  int local_rank = 0;
  int pp = 0;
  int dp_replicate = 0;
  int dp_shard = 0;
  int cp = 0;
  int tp = 0;
};

struct LayoutSpec {
  int world_size = 1;
  int nodes = 1;
  int dp_replicate = 1;
  int dp_shard = 1;  // for DDP: dp_replicate = dp_size, dp_shard = 1
  int cp_size = 1;
  int tp_size = 1;
  int pp_size = 1;
  int ep_size = 1;
  std::vector<RankPlace> ranks;  // in rank order
};

struct BatchSpec {
  int64_t global_batch_size = 0;  // samples an optimizer step, over all dp ranks
  int64_t local_batch_size = 0;   // samples a micro-batch, per dp rank
  int64_t grad_acc_steps = 1;     // micro-batches an optimizer step, per dp rank
};

struct DistSpec {
  std::string strategy = "fsdp2";  // "ddp" or "fsdp2"
  std::string backend = "gloo";    // "gloo" or "nccl": what is used, after the choice for the machine
  int64_t timeout_ms = 60'000;     // of a collective
  int threads = 0;                 // CPU threads a rank; 0 = cores / local ranks
  bool activation_checkpointing = false;
  bool broadcast_buffers = false;
  std::optional<bool> reshard_after_forward;  // fsdp2; null = all blocks but the last
  std::optional<std::string> param_dtype;     // mp_policy: the compute dtype
  std::optional<std::string> reduce_dtype;
  std::optional<std::string> output_dtype;
};

struct ModelSpec {
  std::string path;                     // a local Hugging Face directory, absolute
  std::string name;                     // what the recipe calls it; goes into adapter_config.json
  bool from_config = false;             // random weights instead of the directory's
  std::string torch_dtype = "auto";     // "auto" (the checkpoint's), "float32", "bfloat16", "float16"
  std::string attn_implementation = "sdpa";  // sdpa or eager: equal results
  nlohmann::json config_overrides = nlohmann::json::object();  // laid over config.json
  std::string chat_template;            // overrides the tokenizer's when not empty
};

struct PeftSpec {
  std::vector<std::string> target_modules;   // globs (docs/recipe_reference.md)
  std::vector<std::string> exclude_modules;
  bool match_all_linear = false;
  int64_t dim = 8;
  double alpha = 32;
  double dropout = 0;
  std::string dropout_position = "post";  // "pre" or "post"
  std::string lora_A_init = "xavier";     // "xavier", anything else: kaiming_uniform(a = sqrt 5)
  std::optional<std::string> lora_dtype;
  std::string adapter_path;               // start from this PEFT adapter directory when not empty
};

struct DatasetSpec {
  std::string name = "default";   // of a validation set
  std::string kind = "squad";     // "squad", "mock"; further kinds have names of their own
  std::string path;               // local file or directory, absolute
  std::string split = "train";
  std::optional<int64_t> limit_samples;
  std::optional<int64_t> seq_length;
  std::string padding = "do_not_pad";        // "do_not_pad" or "max_length"
  bool truncation = false;                   // cut over-long samples at seq_length instead of refusing them
  bool answer_only_loss_mask = true;
  bool lossy_utf8 = false;                   // replace invalid UTF-8 instead of refusing it
  nlohmann::json args = nlohmann::json::object();  // what the kind alone knows
};

struct LoaderSpec {
  bool shuffle = true;
  bool drop_last = false;
  int64_t batch_size = 1;
  int64_t num_workers = 0;
};

struct ScheduleSpec {
  std::optional<int64_t> num_epochs;
  std::optional<int64_t> max_steps;
  std::optional<int64_t> ckpt_every_steps;  // null: at the end of each epoch
  bool save_checkpoint_every_epoch = true;
  std::optional<int64_t> val_every_steps;
};

struct LossSpec {
  // "masked_ce", "chunked_ce", "fused_linear_ce", "parallel_ce": equal results, different memory.
  std::string kind = "masked_ce";
  int64_t ignore_index = -100;
  int64_t chunk_len = 32;
  bool fp32_upcast = true;
  double logit_softcapping = 0;
};

struct OptimizerSpec {
  std::string kind = "adam";  // "adam", "adamw", "sgd"
  double lr = 1e-5;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool amsgrad = false;
  bool maximize = false;
  double momentum = 0, dampening = 0;  // sgd
  bool nesterov = false;
  std::string master_weight_dtype = "float32";
  std::string exp_avg_dtype = "float32";
  std::string exp_avg_sq_dtype = "float32";
};

struct LrSchedulerSpec {
  std::string lr_decay_style = "cosine";  // constant, linear, cosine, inverse-square-root, WSD
  std::optional<int64_t> lr_warmup_steps;
  std::optional<int64_t> lr_decay_steps;
  std::optional<double> init_lr, max_lr, min_lr;
  std::optional<double> start_wd, end_wd;
  std::optional<int64_t> wd_incr_steps;
  std::string wd_incr_style = "constant";
  std::optional<int64_t> wsd_decay_steps;
  std::string lr_wsd_decay_style = "linear";
  bool use_checkpoint_opt_param_scheduler = true;
  bool override_opt_param_scheduler = false;
};

struct CheckpointSpec {
  bool enabled = true;
  std::string dir;                          // absolute
  std::string save_consolidated = "final";  // "false", "final", "every"
  std::string restore_from;                 // empty: automatic; else a path, a pointer or a directory's name
  bool fresh = false;                       // --fresh: never resume
  bool is_async = false;
  std::optional<int64_t> max_recent_checkpoints;
  std::optional<std::string> export_dtype;  // null: the dtype that was trained
  std::string best_metric_key = "default";
  std::string config_yaml;                  // the resolved recipe, saved as config.yaml
  nlohmann::json run_fingerprint = nlohmann::json::object();  // model shape, peft, data, global batch, seed
};

struct RankSpec {
  int version = 1;
  std::string job;
  int64_t attempt = 1;
  uint64_t seed = 42;
  LayoutSpec layout;
  BatchSpec batch;
  DistSpec dist;
  ModelSpec model;
  std::optional<PeftSpec> peft;
  DatasetSpec dataset;
  LoaderSpec loader;
  std::vector<DatasetSpec> validation_datasets;
  LoaderSpec validation_loader;
  ScheduleSpec schedule;
  LossSpec loss;
  OptimizerSpec optimizer;
  std::optional<LrSchedulerSpec> lr_scheduler;
  std::optional<double> max_grad_norm = 1.0;  // null: no clipping
  CheckpointSpec checkpoint;
};

// Both throw am::Error (kUser) that names the field. RankSpecFromJson refuses another `version` and unknown fields.
nlohmann::json ToJson(const RankSpec& spec);
RankSpec RankSpecFromJson(const nlohmann::json& json);
RankSpec ReadRankSpec(const std::string& path);

}  // namespace am

// Each struct lists its fields once, in `Visit`; the writer, the strict reader and every error
// message follow from that.
#include "worker/rank_io/rank_spec.h"

#include <algorithm>
#include <concepts>
#include <fstream>
#include <sstream>
#include <string_view>
#include <type_traits>
#include <utility>

#include "common/error.h"

namespace am {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;

// V is called as v("name", field) for every field, in the order they are written. `S` is the struct
// or its const.
template <typename S, typename T>
concept Is = std::is_same_v<std::remove_const_t<S>, T>;

template <typename V, Is<RankPlace> S>
void Visit(S& s, V&& v) {
  v("rank", s.rank), v("node", s.node), v("local_rank", s.local_rank), v("pp", s.pp);
  v("dp_replicate", s.dp_replicate), v("dp_shard", s.dp_shard), v("cp", s.cp), v("tp", s.tp);
}

template <typename V, Is<LayoutSpec> S>
void Visit(S& s, V&& v) {
  v("world_size", s.world_size), v("nodes", s.nodes), v("dp_replicate", s.dp_replicate);
  v("dp_shard", s.dp_shard), v("cp_size", s.cp_size), v("tp_size", s.tp_size);
  v("pp_size", s.pp_size), v("ep_size", s.ep_size), v("ranks", s.ranks);
}

template <typename V, Is<BatchSpec> S>
void Visit(S& s, V&& v) {
  v("global_batch_size", s.global_batch_size), v("local_batch_size", s.local_batch_size);
  v("grad_acc_steps", s.grad_acc_steps);
}

template <typename V, Is<DistSpec> S>
void Visit(S& s, V&& v) {
  v("strategy", s.strategy), v("backend", s.backend), v("timeout_ms", s.timeout_ms);
  v("threads", s.threads), v("activation_checkpointing", s.activation_checkpointing);
  v("broadcast_buffers", s.broadcast_buffers);
  v("reshard_after_forward", s.reshard_after_forward), v("param_dtype", s.param_dtype);
  v("reduce_dtype", s.reduce_dtype), v("output_dtype", s.output_dtype);
}

template <typename V, Is<ModelSpec> S>
void Visit(S& s, V&& v) {
  v("path", s.path), v("name", s.name), v("from_config", s.from_config);
  v("torch_dtype", s.torch_dtype), v("attn_implementation", s.attn_implementation);
  v("config_overrides", s.config_overrides), v("chat_template", s.chat_template);
}

template <typename V, Is<PeftSpec> S>
void Visit(S& s, V&& v) {
  v("target_modules", s.target_modules), v("exclude_modules", s.exclude_modules);
  v("match_all_linear", s.match_all_linear), v("dim", s.dim), v("alpha", s.alpha);
  v("dropout", s.dropout), v("dropout_position", s.dropout_position);
  v("lora_A_init", s.lora_A_init), v("lora_dtype", s.lora_dtype);
  v("adapter_path", s.adapter_path);
}

template <typename V, Is<DatasetSpec> S>
void Visit(S& s, V&& v) {
  v("name", s.name), v("kind", s.kind), v("path", s.path), v("split", s.split);
  v("limit_samples", s.limit_samples), v("seq_length", s.seq_length), v("padding", s.padding);
  v("truncation", s.truncation), v("answer_only_loss_mask", s.answer_only_loss_mask);
  v("lossy_utf8", s.lossy_utf8), v("args", s.args);
}

template <typename V, Is<LoaderSpec> S>
void Visit(S& s, V&& v) {
  v("shuffle", s.shuffle), v("drop_last", s.drop_last), v("batch_size", s.batch_size);
  v("num_workers", s.num_workers);
}

template <typename V, Is<ScheduleSpec> S>
void Visit(S& s, V&& v) {
  v("num_epochs", s.num_epochs), v("max_steps", s.max_steps);
  v("ckpt_every_steps", s.ckpt_every_steps);
  v("save_checkpoint_every_epoch", s.save_checkpoint_every_epoch);
  v("val_every_steps", s.val_every_steps);
}

template <typename V, Is<LossSpec> S>
void Visit(S& s, V&& v) {
  v("kind", s.kind), v("ignore_index", s.ignore_index), v("chunk_len", s.chunk_len);
  v("fp32_upcast", s.fp32_upcast), v("logit_softcapping", s.logit_softcapping);
}

template <typename V, Is<OptimizerSpec> S>
void Visit(S& s, V&& v) {
  v("kind", s.kind), v("lr", s.lr), v("beta1", s.beta1), v("beta2", s.beta2), v("eps", s.eps);
  v("weight_decay", s.weight_decay), v("amsgrad", s.amsgrad), v("maximize", s.maximize);
  v("momentum", s.momentum), v("dampening", s.dampening), v("nesterov", s.nesterov);
  v("master_weight_dtype", s.master_weight_dtype), v("exp_avg_dtype", s.exp_avg_dtype);
  v("exp_avg_sq_dtype", s.exp_avg_sq_dtype);
}

template <typename V, Is<LrSchedulerSpec> S>
void Visit(S& s, V&& v) {
  v("lr_decay_style", s.lr_decay_style), v("lr_warmup_steps", s.lr_warmup_steps);
  v("lr_decay_steps", s.lr_decay_steps), v("init_lr", s.init_lr), v("max_lr", s.max_lr);
  v("min_lr", s.min_lr), v("start_wd", s.start_wd), v("end_wd", s.end_wd);
  v("wd_incr_steps", s.wd_incr_steps), v("wd_incr_style", s.wd_incr_style);
  v("wsd_decay_steps", s.wsd_decay_steps), v("lr_wsd_decay_style", s.lr_wsd_decay_style);
  v("use_checkpoint_opt_param_scheduler", s.use_checkpoint_opt_param_scheduler);
  v("override_opt_param_scheduler", s.override_opt_param_scheduler);
}

template <typename V, Is<CheckpointSpec> S>
void Visit(S& s, V&& v) {
  v("enabled", s.enabled), v("dir", s.dir), v("save_consolidated", s.save_consolidated);
  v("restore_from", s.restore_from), v("fresh", s.fresh), v("is_async", s.is_async);
  v("max_recent_checkpoints", s.max_recent_checkpoints), v("export_dtype", s.export_dtype);
  v("best_metric_key", s.best_metric_key), v("config_yaml", s.config_yaml);
  v("run_fingerprint", s.run_fingerprint);
}

template <typename V, Is<RankSpec> S>
void Visit(S& s, V&& v) {
  v("version", s.version), v("job", s.job), v("attempt", s.attempt), v("seed", s.seed);
  v("layout", s.layout), v("batch", s.batch), v("dist", s.dist), v("model", s.model);
  v("peft", s.peft), v("dataset", s.dataset), v("loader", s.loader);
  v("validation_datasets", s.validation_datasets), v("validation_loader", s.validation_loader);
  v("schedule", s.schedule), v("loss", s.loss), v("optimizer", s.optimizer);
  v("lr_scheduler", s.lr_scheduler), v("max_grad_norm", s.max_grad_norm);
  v("checkpoint", s.checkpoint);
}

// ---- writing

struct Writer {
  static json Of(const json& value) { return value; }
  template <typename T>
  static json Of(const T& value) {
    if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
      return value;
    } else {
      json out = json::object();
      Visit(value, [&out](const char* name, const auto& field) { out[name] = Of(field); });
      return out;
    }
  }
  template <typename T>
  static json Of(const std::optional<T>& value) {
    return value ? Of(*value) : json(nullptr);
  }
  template <typename T>
  static json Of(const std::vector<T>& values) {
    json out = json::array();
    for (const T& value : values) out.push_back(Of(value));
    return out;
  }
};

// ---- reading

std::string Join(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "." + name;
}

[[noreturn]] void Refuse(const std::string& path, const std::string& what) {
  throw UserError("rank spec: " + (path.empty() ? what : path + ": " + what));
}

[[noreturn]] void WrongType(const std::string& path, const char* wanted, const json& got) {
  std::string text = got.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  Refuse(path, std::string("expected ") + wanted + ", got " + text);
}

struct Reader {
  static void Into(const json& in, const std::string& path, bool& out) {
    if (!in.is_boolean()) WrongType(path, "true or false", in);
    out = in.get<bool>();
  }
  static void Into(const json& in, const std::string& path, std::string& out) {
    if (!in.is_string()) WrongType(path, "text", in);
    out = in.get<std::string>();
  }
  static void Into(const json& in, const std::string& path, double& out) {
    if (!in.is_number()) WrongType(path, "a number", in);
    out = in.get<double>();
  }
  static void Into(const json& in, const std::string& path, json& out) {
    if (!in.is_object()) WrongType(path, "an object", in);
    out = in;
  }
  template <std::integral T>
  static void Into(const json& in, const std::string& path, T& out) {
    if (!in.is_number_integer()) WrongType(path, "an integer", in);
    // nlohmann keeps what fits neither kind as a float, so the two kinds below are exact.
    bool fits = in.is_number_unsigned() ? std::in_range<T>(in.get<uint64_t>())
                                        : std::in_range<T>(in.get<int64_t>());
    if (!fits) WrongType(path, "an integer within the field's range", in);
    out = in.get<T>();
  }
  template <typename T>
  static void Into(const json& in, const std::string& path, std::optional<T>& out) {
    if (in.is_null()) {
      out.reset();
    } else {
      Into(in, path, out.emplace());
    }
  }
  template <typename T>
  static void Into(const json& in, const std::string& path, std::vector<T>& out) {
    if (!in.is_array()) WrongType(path, "an array", in);
    out.clear();
    for (size_t i = 0; i < in.size(); ++i) {
      Into(in[i], path + "[" + std::to_string(i) + "]", out.emplace_back());
    }
  }
  template <typename T>
  static void Into(const json& in, const std::string& path, T& out) {
    if (!in.is_object()) WrongType(path, "an object", in);
    std::vector<std::string_view> known;
    Visit(out, [&](const char* name, auto& field) {
      known.push_back(name);
      if (auto found = in.find(name); found != in.end()) Into(*found, Join(path, name), field);
    });
    for (auto it = in.begin(); it != in.end(); ++it) {
      if (std::find(known.begin(), known.end(), it.key()) == known.end()) {
        Refuse(Join(path, it.key()), "unknown field; amctl and am-rank are of different versions");
      }
    }
  }
};

}  // namespace

json ToJson(const RankSpec& spec) { return Writer::Of(spec); }

RankSpec RankSpecFromJson(const json& in) {
  if (!in.is_object()) WrongType("", "an object", in);
  auto version = in.find("version");
  if (version == in.end()) Refuse("version", "missing; this am-rank reads version 1");
  if (!version->is_number_integer() || *version != kVersion) {
    Refuse("version", version->dump() + " is not supported; this am-rank reads version 1");
  }
  RankSpec spec;
  Reader::Into(in, "", spec);
  return spec;
}

RankSpec ReadRankSpec(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    throw UserError(path + ": cannot be read; am-rank expects the rank_spec.json of its job");
  std::ostringstream text;
  text << file.rdbuf();
  json in;
  try {
    in = json::parse(text.str());
  } catch (const json::exception& error) {
    throw UserError(path + ": is no JSON: " + error.what());
  }
  try {
    return RankSpecFromJson(in);
  } catch (const Error& error) {
    throw Error(error.kind(), path + ": " + error.what());
  }
}

}  // namespace am

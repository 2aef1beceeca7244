#include "worker/engine/model/model_config.h"

#include <fstream>
#include <set>

#include "common/error.h"

namespace am::engine {
namespace {

using nlohmann::json;

int64_t Int(const json& j, const char* key, std::optional<int64_t> fallback = {}) {
  if (!j.contains(key) || j[key].is_null()) {
    if (fallback) return *fallback;
    throw UserError(std::string("config.json: ") + key + " is missing");
  }
  if (!j[key].is_number_integer() || j[key].get<int64_t>() <= 0)
    throw UserError(std::string("config.json: ") + key + ": " + j[key].dump() +
                    " is not a positive integer");
  return j[key].get<int64_t>();
}

double Number(const json& j, const char* key, double fallback) {
  if (!j.contains(key) || j[key].is_null()) return fallback;
  if (!j[key].is_number())
    throw UserError(std::string("config.json: ") + key + ": " + j[key].dump() + " is not a number");
  return j[key].get<double>();
}

bool Bool(const json& j, const char* key, bool fallback) {
  return j.contains(key) && j[key].is_boolean() ? j[key].get<bool>() : fallback;
}

// transformers 5 writes rope_parameters; before it was rope_theta and rope_scaling {rope_type or
// type, ...}.
RopeConfig ParseRope(const json& j) {
  RopeConfig rope;
  json scaling = json::object();
  for (const char* key : {"rope_scaling", "rope_parameters"})
    if (j.contains(key) && j[key].is_object()) scaling.update(j[key]);
  rope.theta = Number(scaling, "rope_theta", Number(j, "rope_theta", 10000));
  rope.type = scaling.value("rope_type", scaling.value("type", std::string("default")));
  static const std::set<std::string> kTypes = {"default", "linear", "dynamic", "llama3", "yarn"};
  if (!kTypes.contains(rope.type))
    throw UserError("config.json: rope_type: '" + rope.type +
                    "' is not one of default, linear, dynamic, llama3, yarn");
  rope.factor = Number(scaling, "factor", 1);
  rope.low_freq_factor = Number(scaling, "low_freq_factor", 1);
  rope.high_freq_factor = Number(scaling, "high_freq_factor", 4);
  rope.beta_fast = Number(scaling, "beta_fast", 32);
  rope.beta_slow = Number(scaling, "beta_slow", 1);
  rope.truncate = Bool(scaling, "truncate", true);
  for (auto [key, field] : {std::pair{"attention_factor", &rope.attention_factor},
                            {"mscale", &rope.mscale},
                            {"mscale_all_dim", &rope.mscale_all_dim}})
    if (scaling.contains(key) && scaling[key].is_number()) *field = scaling[key].get<double>();
  rope.original_max_position =
      Int(scaling, "original_max_position_embeddings", Int(j, "max_position_embeddings", 2048));
  rope.partial_rotary_factor =
      Number(scaling, "partial_rotary_factor", Number(j, "partial_rotary_factor", 1));
  return rope;
}

}  // namespace

ModelConfig ParseModelConfig(const json& j) {
  ModelConfig config;
  if (!j.contains("architectures") || !j["architectures"].is_array() || j["architectures"].empty())
    throw UserError("config.json: architectures is missing");
  config.architecture = j["architectures"][0].get<std::string>();
  const bool qwen2 = config.architecture == "Qwen2ForCausalLM";
  const bool mistral = config.architecture == "MistralForCausalLM";
  if (!qwen2 && !mistral && config.architecture != "LlamaForCausalLM")
    throw UserError("config.json: architectures: '" + config.architecture +
                    "' cannot be trained yet; LlamaForCausalLM, MistralForCausalLM and "
                    "Qwen2ForCausalLM can");
  if (mistral && j.contains("sliding_window") && j["sliding_window"].is_number() &&
      j["sliding_window"].get<int64_t>() < Int(j, "max_position_embeddings", 2048))
    throw UserError(
        "config.json: sliding_window: windows shorter than max_position_embeddings "
        "cannot be trained yet");
  if (qwen2 && Bool(j, "use_sliding_window", false))
    throw UserError("config.json: use_sliding_window: sliding windows cannot be trained yet");
  config.vocab_size = Int(j, "vocab_size");
  config.hidden_size = Int(j, "hidden_size");
  config.intermediate_size = Int(j, "intermediate_size");
  config.num_layers = Int(j, "num_hidden_layers");
  config.num_heads = Int(j, "num_attention_heads");
  config.num_kv_heads = Int(j, "num_key_value_heads", config.num_heads);
  if (config.num_heads % config.num_kv_heads != 0)
    throw UserError("config.json: num_key_value_heads " + std::to_string(config.num_kv_heads) +
                    " does not divide num_attention_heads " + std::to_string(config.num_heads));
  config.head_dim = Int(j, "head_dim", config.hidden_size / config.num_heads);
  config.max_position = Int(j, "max_position_embeddings", 2048);
  config.rms_norm_eps = Number(j, "rms_norm_eps", 1e-6);
  config.initializer_range = Number(j, "initializer_range", 0.02);
  config.tie_word_embeddings = Bool(j, "tie_word_embeddings", false);
  if (j.contains("pad_token_id") && j["pad_token_id"].is_number_integer()) {
    const int64_t id = j["pad_token_id"].get<int64_t>();
    config.padding_id = id < 0 ? id + config.vocab_size : id;
  }
  const bool attention_bias = Bool(j, "attention_bias", false);
  config.qkv_bias = qwen2 || attention_bias;
  config.attention_out_bias = attention_bias && !qwen2;
  config.mlp_bias = Bool(j, "mlp_bias", false);
  const std::string act = j.value("hidden_act", std::string("silu"));
  if (act != "silu" && act != "swish")
    throw UserError("config.json: hidden_act: '" + act + "' is not known; silu is");
  config.rope = ParseRope(j);
  config.dtype = j.value("dtype", j.value("torch_dtype", std::string("float32")));
  return config;
}

json ReadConfigJson(const std::string& dir, const json& overrides) {
  const std::string path = dir + "/config.json";
  std::ifstream in(path);
  if (!in) throw UserError(path + ": cannot be opened; a Hugging Face model directory has one");
  json config;
  try {
    config = json::parse(in);
  } catch (const json::exception& error) {
    throw UserError(path + ": " + error.what());
  }
  if (!config.is_object()) throw UserError(path + ": is not a JSON object");
  config.merge_patch(overrides);
  return config;
}

}  // namespace am::engine

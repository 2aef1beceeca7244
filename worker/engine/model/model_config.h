// ModelConfig: what a Hugging Face config.json says of a decoder of the Llama family.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace am::engine {

// Rotary embedding; names and defaults as in transformers' modeling_rope_utils.
struct RopeConfig {
  std::string type = "default";  // default, linear, dynamic, llama3, yarn
  double theta = 10000;
  double factor = 1;
  double low_freq_factor = 1;                                      // llama3
  double high_freq_factor = 4;                                     // llama3
  double beta_fast = 32;                                           // yarn
  double beta_slow = 1;                                            // yarn
  bool truncate = true;                                            // yarn
  std::optional<double> attention_factor, mscale, mscale_all_dim;  // yarn
  int64_t original_max_position = 0;                               // 0: max_position
  double partial_rotary_factor = 1;
};

struct ModelConfig {
  std::string architecture;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t max_position = 2048;
  double rms_norm_eps = 1e-6;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
  // Looking this token up gives its embedding no gradient, as torch.nn.Embedding's padding_idx; -1:
  // none.
  int64_t padding_id = -1;
  bool qkv_bias = false;
  bool attention_out_bias = false;
  bool mlp_bias = false;
  RopeConfig rope;
  std::string dtype = "float32";  // of the stored weights

  int64_t q_size() const { return num_heads * head_dim; }
  int64_t kv_size() const { return num_kv_heads * head_dim; }
};

// `json` is config.json with the recipe's overrides laid over it. Throws am::Error (kUser), naming
// the key, for an architecture, an activation or a RoPE scaling that is not known, and for sizes
// that do not fit together.
ModelConfig ParseModelConfig(const nlohmann::json& json);

// Reads <dir>/config.json and lays `overrides` over it. Throws am::Error (kUser) naming the file.
nlohmann::json ReadConfigJson(const std::string& dir, const nlohmann::json& overrides);

}  // namespace am::engine

// ModelShape: what a plan must know of a model: the weights of each layer, how often a token meets
// each of them, and what attention or scan it passes through.
//
// Made from config.json by ShapeOf, one function a family (families_*.cc). Parameters, FLOPs,
// memory and step time are all counted from this one description. Immutable plain data.
//   absl::StatusOr<ModelShape> shape = ShapeOf(config.json);
//   Parameters(*shape) == 8'030'261'248;
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace am::model {

enum class Role {
  kEmbedding,  // looked up, not multiplied
  kHead,       // the output projection
  kAttention,  // projections around softmax attention, its indexers and compressors
  kMixer,      // projections around a linear attention or state space scan
  kMlp,        // dense feed-forward
  kExpert,     // routed experts: spread over ep ranks
  kSharedExpert,
  kRouter,
  kNorm,
  kOther,  // hyper-connections, n-gram tables, gates
};

// Equal matrices, or a vector, of a layer.
struct Weight {
  std::string name;  // module within its layer, as adapter patterns see it: "self_attn.q_proj",
                     // "mlp.experts.gate_proj"; of a vector the parameter: "self_attn.q_proj.bias"
  Role role = Role::kOther;
  int64_t in = 0;  // 0: a vector of `out` numbers (norm, bias, sink)
  int64_t out = 0;
  int64_t copies = 1;  // held; 0 where the numbers are another weight's (tied head)
  double uses = 1;     // copies a token is multiplied by: top-k of the experts; 0: looked up
  bool linear = true;  // a module that adapters fit; false: convolutions, routers, bare parameters

  int64_t Numbers() const { return copies * out * (in > 0 ? in : 1); }
  // Multiply-adds a token; none for a vector.
  double Macs() const {
    return in > 0 ? uses * static_cast<double>(in) * static_cast<double>(out) : 0;
  }
  bool operator==(const Weight&) const = default;
};

// Softmax attention of a layer. A query sees the last `window` keys (0: every key before it), of
// which an indexer may pick `top_k` (0: all). With a compression ratio it also sees one entry for
// every ratio keys, and the indexer picks among those instead.
struct Attention {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t key_dim = 0;    // of a head, q·k
  int64_t value_dim = 0;  // of a head
  bool latent = false;    // multi-head latent attention: keys and values come from a low rank
  int64_t window = 0;
  int64_t compress_ratio = 0;
  int64_t top_k = 0;
  int64_t block = 1;        // keys picked together; the unfinished block at the end is seen too
  int64_t index_heads = 0;  // of the indexer; 0: none, or an earlier layer's picks are used
  int64_t index_dim = 0;
  bool causal = true;

  bool operator==(const Attention&) const = default;
};

// Keys that a query meets on average in a sequence of `seq` tokens.
double KeysPerQuery(const Attention& attention, int64_t seq);

// A linear recurrence over the sequence.
struct Scan {
  enum class Kind { kGatedDelta, kKimiDelta, kMamba2 };
  Kind kind = Kind::kGatedDelta;
  int64_t heads = 0;      // of the values
  int64_t key_dim = 0;    // state rows of a head (Mamba-2: the state width)
  int64_t value_dim = 0;  // state columns of a head (Mamba-2: the head width)
  int64_t groups = 0;     // key heads, or Mamba-2 groups
  int64_t conv_width = 0;
  int64_t conv_channels = 0;
  int64_t chunk = 0;

  bool operator==(const Scan&) const = default;
};

struct Layer {
  std::string kind;  // for people: "attention + 128 experts", "mamba"
  std::vector<Weight> weights;
  std::optional<Attention> attention;
  std::optional<Scan> scan;

  bool has_experts() const;
  bool operator==(const Layer&) const = default;
};

struct ModelShape {
  // One word for models that are built and counted alike: "llama" (Mistral too), "qwen2", "qwen3",
  // "gemma2", "gemma3", "phi3", "qwen3_moe", "mixtral", "gpt_oss", "glm4_moe", "mimo_v2", "laguna",
  // "deepseek_v3" (Kimi-K2 too), "glm_moe_dsa" (DeepSeek-V3.2 too), "deepseek_v4", "deepseek_v41",
  // "qwen3_next", "qwen3_5", "qwen4_exp", "kimi_linear", "glm5_next", "nemotron_h",
  // "hunyuan_image_3", "qwen_image".
  std::string family;
  int64_t hidden_size = 0;
  int64_t vocab_size = 0;
  int64_t num_experts = 0;  // 0: dense
  int64_t experts_per_token = 0;
  int64_t residual_streams = 1;   // hyper-connections keep several
  std::vector<Weight> embedding;  // before the first layer
  std::vector<Layer> kinds;       // each distinct layer once
  std::vector<int> layers;        // by depth: an index into kinds
  std::vector<Weight> head;       // after the last layer: final norm, output projection
  // One physical multi-token-prediction block (whole, without what it shares with the model), where
  // the checkpoint has them; not part of Parameters().
  std::optional<Layer> mtp;
  int64_t mtp_depths = 0;  // that config.json names
  // Towers and connectors of a multimodal model, block by block. Parameters() counts them where the
  // model that Hugging Face transformers builds holds them: what a checkpoint of it stores.
  std::vector<Layer> towers;
  bool towers_counted = true;
  bool tables_counted = true;  // n-gram tables in Parameters(): DeepSeek names V4.1 without them
  nlohmann::json config;       // config.json of the text part

  const Layer& layer(size_t depth) const { return kinds[static_cast<size_t>(layers[depth])]; }
};

// Unimplemented for a family that is not known, with the nearest known; InvalidArgument where a
// number is missing or impossible, named.
absl::StatusOr<ModelShape> ShapeOf(const nlohmann::json& config);

int64_t Numbers(const Layer& layer);
double Macs(const Layer& layer);  // multiply-adds a token in weights, without attention and scan

// Of the model as Hugging Face transformers builds it, without multi-token prediction.
int64_t Parameters(const ModelShape& shape);
// All of a dense model. With experts those that a text token meets: of the routed experts only
// top-k, no towers, no n-gram tables; both embeddings included.
int64_t ActiveParameters(const ModelShape& shape);
// An n-gram table: rows that a token looks up.
bool IsTable(const Weight& weight);

}  // namespace am::model

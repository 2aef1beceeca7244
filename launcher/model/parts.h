// Parts that families are put together from: norms, feed-forward networks, experts, attention.
// Each adds its weights to a layer under the module names of Hugging Face transformers.
//   Layer layer = Block("attention + mlp", hidden);
//   AddAttention(layer, {.hidden = 4096, .heads = 32, .kv_heads = 8, .key_dim = 128});
//   AddGatedMlp(layer, "mlp", 4096, 14336);
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/model/fields.h"
#include "launcher/model/shape.h"

namespace am::model {

void AddMatrix(std::vector<Weight>& weights, std::string name, Role role, int64_t in, int64_t out);
// One that no adapter fits: a convolution, a router, a bare parameter.
void AddBare(std::vector<Weight>& weights, std::string name, Role role, int64_t in, int64_t out);
// `name` is the parameter's whole name: "self_attn.q_proj.bias", "input_layernorm.weight".
void AddVector(std::vector<Weight>& weights, std::string name, Role role, int64_t out);
void AddNorm(std::vector<Weight>& weights, std::string module, int64_t width);

// A layer with the two norms that most have.
Layer Block(std::string kind, int64_t hidden);

// gate_proj, up_proj, down_proj.
void AddGatedMlp(Layer& layer, std::string prefix, int64_t hidden, int64_t width,
                 Role role = Role::kMlp);
// up_proj, down_proj.
void AddPlainMlp(Layer& layer, std::string prefix, int64_t hidden, int64_t width,
                 Role role = Role::kMlp);

// Routed experts with their router, and what every token passes beside them.
struct Experts {
  int64_t hidden = 0;
  int64_t width = 0;
  int64_t count = 0;
  int64_t per_token = 0;
  int64_t shared_width = 0;  // of all shared experts together; 0: none
  bool gated = true;         // gate, up and down; else up and down
  bool biases = false;       // of the experts' matrices
  bool router_bias = false;
  bool shared_gate = false;  // a sigmoid weighs the shared expert
  int64_t latent = 0;        // width that the routed experts work in; 0: hidden
  std::string prefix = "mlp";
  std::string router = "gate";
  std::string shared = "shared_experts";
};
void AddExperts(Layer& layer, const Experts& experts);

// Query, key, value and output projections with grouped keys.
struct GroupedQuery {
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t key_dim = 0;
  int64_t value_dim = 0;  // 0: key_dim
  int64_t window = 0;
  bool qkv_bias = false;
  bool output_bias = false;
  bool head_norms = false;  // RMSNorm of each query and key head
  bool sinks = false;       // one number a head
  bool query_gate = false;  // q_proj makes the output's gate too
  bool fused = false;       // one qkv_proj
  std::string prefix = "self_attn";
  std::string query_norm = "q_norm";
  std::string key_norm = "k_norm";
};
// num_key_value_heads is num_attention_heads, head_dim hidden_size / num_attention_heads, where the
// file is silent.
GroupedQuery ReadGroupedQuery(Fields& fields);
void AddAttention(Layer& layer, const GroupedQuery& attention);

// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1).
struct Latent {
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t query_rank = 0;  // 0: q_proj
  int64_t kv_rank = 0;
  int64_t nope_dim = 0;
  int64_t rope_dim = 0;
  int64_t value_dim = 0;
  bool biases = false;  // of the projections that go down, and of the output's
};
Latent ReadLatent(Fields& fields);
void AddLatentAttention(Layer& layer, const Latent& latent);

// What a lightning indexer of sparse attention adds (DeepSeek-V3.2, GLM-5); its picks alone where
// an earlier layer's are shared.
struct Indexer {
  int64_t heads = 0;
  int64_t dim = 0;
  int64_t top_k = 0;
  int64_t block = 1;
  bool shared = false;
};
void AddIndexer(Layer& layer, const Latent& latent, const Indexer& indexer);

// Manifold-constrained hyper-connections: `streams` residual streams mixed before and after
// attention and feed-forward (arXiv 2512.24880).
void AddHyperConnections(Layer& layer, int64_t hidden, int64_t streams);

// What a multi-token-prediction block puts before and after the layer it is made of (DeepSeek-V3,
// arXiv 2412.19437, section 2.2).
void AddPredictionEnds(Layer& layer, int64_t hidden);

// For each layer whether its feed-forward is experts: mlp_layer_types, a list moe_layer_freq, or
// all from first_k_dense_replace on.
std::vector<bool> ReadSparse(Fields& fields, int64_t layers, int64_t dense_first);
// The same by decoder_sparse_step and mlp_only_layers, as Qwen writes it.
std::vector<bool> ReadSparseSteps(Fields& fields, int64_t layers);
// A list of layer types; empty where config.json has none.
std::vector<std::string> ReadTypes(Fields& fields, int64_t layers);
void NoteExperts(ModelShape& shape, const Experts& experts);

// embed_tokens, the final norm and lm_head; a tied head holds no numbers of its own.
void AddEnds(Fields& fields, ModelShape& shape);
// Puts a layer at the end; equal ones are kept once.
void AddLayer(ModelShape& shape, Layer layer);

}  // namespace am::model

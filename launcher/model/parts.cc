#include "launcher/model/parts.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

namespace am::model {

void AddMatrix(std::vector<Weight>& weights, std::string name, Role role, int64_t in, int64_t out) {
  weights.push_back({.name = std::move(name), .role = role, .in = in, .out = out});
}

void AddBare(std::vector<Weight>& weights, std::string name, Role role, int64_t in, int64_t out) {
  weights.push_back({.name = std::move(name), .role = role, .in = in, .out = out, .linear = false});
}

void AddVector(std::vector<Weight>& weights, std::string name, Role role, int64_t out) {
  AddBare(weights, std::move(name), role, 0, out);
}

void AddNorm(std::vector<Weight>& weights, std::string module, int64_t width) {
  AddVector(weights, std::move(module) + ".weight", Role::kNorm, width);
}

Layer Block(std::string kind, int64_t hidden) {
  Layer layer{.kind = std::move(kind)};
  AddNorm(layer.weights, "input_layernorm", hidden);
  AddNorm(layer.weights, "post_attention_layernorm", hidden);
  return layer;
}

void AddGatedMlp(Layer& layer, std::string prefix, int64_t hidden, int64_t width, Role role) {
  AddMatrix(layer.weights, prefix + ".gate_proj", role, hidden, width);
  AddPlainMlp(layer, std::move(prefix), hidden, width, role);
}

void AddPlainMlp(Layer& layer, std::string prefix, int64_t hidden, int64_t width, Role role) {
  AddMatrix(layer.weights, prefix + ".up_proj", role, hidden, width);
  AddMatrix(layer.weights, prefix + ".down_proj", role, width, hidden);
}

void AddExperts(Layer& layer, const Experts& experts) {
  std::vector<Weight>& weights = layer.weights;
  AddBare(weights, absl::StrCat(experts.prefix, ".", experts.router), Role::kRouter, experts.hidden,
          experts.count);
  if (experts.router_bias) {
    AddVector(weights, absl::StrCat(experts.prefix, ".", experts.router, ".bias"), Role::kRouter,
              experts.count);
  }
  int64_t inner = experts.latent > 0 ? experts.latent : experts.hidden;
  if (experts.latent > 0) {
    AddMatrix(weights, experts.prefix + ".fc1_latent_proj", Role::kSharedExpert, experts.hidden,
              inner);
    AddMatrix(weights, experts.prefix + ".fc2_latent_proj", Role::kSharedExpert, inner,
              experts.hidden);
  }
  auto routed = [&](const char* module, int64_t in, int64_t out) {
    Weight weight{.name = absl::StrCat(experts.prefix, ".experts.", module),
                  .role = Role::kExpert,
                  .in = in,
                  .out = out,
                  .copies = experts.count,
                  .uses = static_cast<double>(experts.per_token)};
    weights.push_back(weight);
    if (!experts.biases) return;
    weight.name += ".bias";
    weight.in = 0;
    weight.linear = false;
    weights.push_back(weight);
  };
  if (experts.gated) routed("gate_proj", inner, experts.width);
  routed("up_proj", inner, experts.width);
  routed("down_proj", experts.width, inner);
  if (experts.shared_width == 0) return;
  std::string shared = absl::StrCat(experts.prefix, ".", experts.shared);
  if (experts.gated) {
    AddGatedMlp(layer, shared, experts.hidden, experts.shared_width, Role::kSharedExpert);
  } else {
    AddPlainMlp(layer, shared, experts.hidden, experts.shared_width, Role::kSharedExpert);
  }
  if (experts.shared_gate) AddMatrix(weights, shared + "_gate", Role::kRouter, experts.hidden, 1);
}

GroupedQuery ReadGroupedQuery(Fields& fields) {
  GroupedQuery read{.hidden = fields.Need("hidden_size"),
                    .heads = fields.Need("num_attention_heads")};
  read.kv_heads =
      fields.Has("num_key_value_heads") ? fields.Need("num_key_value_heads") : read.heads;
  read.key_dim = fields.Has("head_dim") ? fields.Need("head_dim") : read.hidden / read.heads;
  if (read.key_dim < 1) fields.Fail("hidden_size", "is smaller than num_attention_heads");
  return read;
}

void AddAttention(Layer& layer, const GroupedQuery& attention) {
  const std::string& prefix = attention.prefix;
  int64_t value_dim = attention.value_dim > 0 ? attention.value_dim : attention.key_dim;
  int64_t query = attention.heads * attention.key_dim * (attention.query_gate ? 2 : 1);
  int64_t key = attention.kv_heads * attention.key_dim;
  int64_t value = attention.kv_heads * value_dim;
  auto project = [&](const char* module, int64_t in, int64_t out, bool bias) {
    std::string name = absl::StrCat(prefix, ".", module);
    AddMatrix(layer.weights, name, Role::kAttention, in, out);
    if (bias) AddVector(layer.weights, name + ".bias", Role::kAttention, out);
  };
  if (attention.fused) {
    project("qkv_proj", attention.hidden, query + key + value, attention.qkv_bias);
  } else {
    project("q_proj", attention.hidden, query, attention.qkv_bias);
    project("k_proj", attention.hidden, key, attention.qkv_bias);
    project("v_proj", attention.hidden, value, attention.qkv_bias);
  }
  project("o_proj", attention.heads * value_dim, attention.hidden, attention.output_bias);
  if (attention.head_norms) {
    AddNorm(layer.weights, absl::StrCat(prefix, ".", attention.query_norm), attention.key_dim);
    AddNorm(layer.weights, absl::StrCat(prefix, ".", attention.key_norm), attention.key_dim);
  }
  if (attention.sinks) {
    AddVector(layer.weights, prefix + ".sinks", Role::kAttention, attention.heads);
  }
  layer.attention = Attention{.heads = attention.heads,
                              .kv_heads = attention.kv_heads,
                              .key_dim = attention.key_dim,
                              .value_dim = value_dim,
                              .window = attention.window};
}

Latent ReadLatent(Fields& fields) {
  return {.hidden = fields.Need("hidden_size"),
          .heads = fields.Need("num_attention_heads"),
          .query_rank = fields.Or("q_lora_rank", 0),
          .kv_rank = fields.Need("kv_lora_rank"),
          .nope_dim = fields.Need("qk_nope_head_dim"),
          .rope_dim = fields.Or("qk_rope_head_dim", 0),
          .value_dim = fields.Need("v_head_dim"),
          .biases = fields.Flag("attention_bias", false)};
}

void AddLatentAttention(Layer& layer, const Latent& latent) {
  std::vector<Weight>& weights = layer.weights;
  int64_t key_dim = latent.nope_dim + latent.rope_dim;
  auto project = [&](const char* module, int64_t in, int64_t out, bool bias) {
    std::string name = absl::StrCat("self_attn.", module);
    AddMatrix(weights, name, Role::kAttention, in, out);
    if (bias) AddVector(weights, name + ".bias", Role::kAttention, out);
  };
  if (latent.query_rank > 0) {
    project("q_a_proj", latent.hidden, latent.query_rank, latent.biases);
    AddNorm(weights, "self_attn.q_a_layernorm", latent.query_rank);
    project("q_b_proj", latent.query_rank, latent.heads * key_dim, false);
  } else {
    project("q_proj", latent.hidden, latent.heads * key_dim, false);
  }
  project("kv_a_proj_with_mqa", latent.hidden, latent.kv_rank + latent.rope_dim, latent.biases);
  AddNorm(weights, "self_attn.kv_a_layernorm", latent.kv_rank);
  project("kv_b_proj", latent.kv_rank, latent.heads * (latent.nope_dim + latent.value_dim), false);
  project("o_proj", latent.heads * latent.value_dim, latent.hidden, latent.biases);
  layer.attention = Attention{.heads = latent.heads,
                              .kv_heads = latent.heads,
                              .key_dim = key_dim,
                              .value_dim = latent.value_dim,
                              .latent = true};
}

void AddIndexer(Layer& layer, const Latent& latent, const Indexer& indexer) {
  layer.attention->top_k = indexer.top_k;
  layer.attention->block = indexer.block;
  if (indexer.shared) return;
  layer.attention->index_heads = indexer.heads;
  layer.attention->index_dim = indexer.dim;
  std::vector<Weight>& weights = layer.weights;
  const std::string prefix = "self_attn.indexer";
  if (indexer.block > 1) {  // keys are pooled by block before they are scored
    AddVector(weights, prefix + ".index_kpool_compress_ape", Role::kAttention,
              indexer.block * indexer.dim);
    AddBare(weights, prefix + ".index_kpool_compress_gate", Role::kAttention, latent.hidden,
            indexer.dim);
  }
  AddMatrix(weights, prefix + ".wq_b", Role::kAttention, latent.query_rank,
            indexer.heads * indexer.dim);
  AddMatrix(weights, prefix + ".wk", Role::kAttention, latent.hidden, indexer.dim);
  AddNorm(weights, prefix + ".k_norm", indexer.dim);
  AddVector(weights, prefix + ".k_norm.bias", Role::kNorm, indexer.dim);
  AddMatrix(weights, prefix + ".weights_proj", Role::kAttention, latent.hidden, indexer.heads);
}

void AddHyperConnections(Layer& layer, int64_t hidden, int64_t streams) {
  for (const char* around : {"attn_hc", "ffn_hc"}) {
    std::string prefix = around;
    int64_t coefficients = streams * (streams + 2);
    AddBare(layer.weights, prefix + ".fn", Role::kOther, streams * hidden, coefficients);
    AddVector(layer.weights, prefix + ".base", Role::kOther, coefficients);
    AddVector(layer.weights, prefix + ".scale", Role::kOther, 3);
  }
}

void AddPredictionEnds(Layer& layer, int64_t hidden) {
  AddNorm(layer.weights, "enorm", hidden);
  AddNorm(layer.weights, "hnorm", hidden);
  AddMatrix(layer.weights, "eh_proj", Role::kOther, 2 * hidden, hidden);
  AddNorm(layer.weights, "shared_head.norm", hidden);
}

std::vector<bool> ReadSparse(Fields& fields, int64_t layers, int64_t dense_first) {
  std::vector<bool> sparse;
  std::vector<std::string> types = fields.Words("mlp_layer_types", layers);
  if (!types.empty()) {
    for (const std::string& type : types) {
      if (type != "dense" && type != "sparse") {
        fields.Fail("mlp_layer_types", absl::StrCat(type, " is neither dense nor sparse"));
      }
      sparse.push_back(type == "sparse");
    }
  } else if (fields.IsList("moe_layer_freq")) {
    for (int64_t one : fields.Ints("moe_layer_freq", layers)) sparse.push_back(one != 0);
  } else {
    int64_t dense = fields.Or("first_k_dense_replace", dense_first);
    for (int64_t depth = 0; depth < layers; ++depth) sparse.push_back(depth >= dense);
  }
  sparse.resize(static_cast<size_t>(layers), true);  // where a list was wrong
  return sparse;
}

std::vector<bool> ReadSparseSteps(Fields& fields, int64_t layers) {
  int64_t step = std::max<int64_t>(fields.Or("decoder_sparse_step", 1), 1);
  std::vector<bool> sparse;
  for (int64_t depth = 0; depth < layers; ++depth) sparse.push_back((depth + 1) % step == 0);
  for (int64_t depth : fields.Ints("mlp_only_layers")) {
    if (depth < layers) sparse[static_cast<size_t>(depth)] = false;
  }
  return sparse;
}

std::vector<std::string> ReadTypes(Fields& fields, int64_t layers) {
  return fields.Words("layer_types", layers);
}

void NoteExperts(ModelShape& shape, const Experts& experts) {
  shape.num_experts = experts.count;
  shape.experts_per_token = experts.per_token;
}

void AddEnds(Fields& fields, ModelShape& shape) {
  shape.hidden_size = fields.Need("hidden_size");
  shape.vocab_size = fields.Need("vocab_size", kMaxRows);
  bool tied = fields.Flag("tie_word_embeddings", false);
  shape.embedding = {{.name = "embed_tokens",
                      .role = Role::kEmbedding,
                      .in = shape.hidden_size,
                      .out = shape.vocab_size,
                      .uses = 0,
                      .linear = false}};
  AddNorm(shape.head, "norm", shape.hidden_size);
  shape.head.push_back({.name = "lm_head",
                        .role = Role::kHead,
                        .in = shape.hidden_size,
                        .out = shape.vocab_size,
                        .copies = tied ? 0 : 1});
}

void AddLayer(ModelShape& shape, Layer layer) {
  // The newest kinds first: layers repeat soon.
  auto equal = std::find(shape.kinds.rbegin(), shape.kinds.rend(), layer);
  if (equal == shape.kinds.rend()) {
    shape.layers.push_back(static_cast<int>(shape.kinds.size()));
    shape.kinds.push_back(std::move(layer));
  } else {
    shape.layers.push_back(static_cast<int>(shape.kinds.rend() - equal) - 1);
  }
}

}  // namespace am::model

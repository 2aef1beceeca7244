// Decoders with latent or compressed attention. Structure and module names: Hugging Face
// transformers, modeling_deepseek_v3.py (also Kimi-K2 and Moonlight), modeling_glm_moe_dsa.py,
// modeling_deepseek_v4.py; DeepSeek-V4.1's from the tensors of its published checkpoint, under the
// names of V4. The router's correction bias is a buffer, no parameter.
#include <absl/strings/str_cat.h>

#include <algorithm>

#include "launcher/model/families.h"
#include "launcher/model/parts.h"

namespace am::model {
namespace {

// Routed experts beside shared ones of the same width.
Experts ReadExperts(Fields& fields, ModelShape& shape) {
  Experts experts{.hidden = shape.hidden_size,
                  .width = fields.Need("moe_intermediate_size"),
                  .count = fields.Need({"n_routed_experts", "num_experts"}),
                  .per_token = fields.Need("num_experts_per_tok")};
  experts.shared_width = fields.Or("n_shared_experts", 0) * experts.width;
  NoteExperts(shape, experts);
  return experts;
}

// "full" where the layer has an indexer, "shared" where it uses an earlier layer's picks.
std::vector<bool> ReadShared(Fields& fields, int64_t layers) {
  std::vector<std::string> types = fields.Words("indexer_types", layers);
  int64_t every = std::max<int64_t>(fields.Or("index_topk_freq", 1), 1);
  int64_t offset = fields.Or("index_skip_topk_offset", 2);
  std::vector<bool> shared;
  for (int64_t depth = 0; depth < layers; ++depth) {
    shared.push_back(types.empty() ? std::max<int64_t>(depth - offset + 1, 0) % every != 0
                                   : types[depth] == "shared");
  }
  return shared;
}

// DeepSeek-V4: one key that is the value too, shared by all heads; queries and the grouped output
// through low ranks; sinks (modeling_deepseek_v4.py, DeepseekV4Attention).
struct Compressed {
  int64_t hidden = 0, heads = 0, head_dim = 0, query_rank = 0, output_rank = 0, output_groups = 0;
  int64_t window = 0;
};

Compressed ReadCompressed(Fields& fields) {
  Compressed read{.hidden = fields.Need("hidden_size"),
                  .heads = fields.Need("num_attention_heads"),
                  .head_dim = fields.Need("head_dim"),
                  .query_rank = fields.Need("q_lora_rank"),
                  .output_rank = fields.Need("o_lora_rank"),
                  .output_groups = fields.Need("o_groups"),
                  .window = fields.Need("sliding_window", kMaxRows)};
  if (read.heads % read.output_groups != 0) {
    fields.Fail("o_groups", absl::StrCat(read.output_groups,
                                         " does not divide num_attention_heads ", read.heads));
  }
  return read;
}

void AddCompressed(Layer& layer, const Compressed& read) {
  std::vector<Weight>& weights = layer.weights;
  AddVector(weights, "self_attn.sinks", Role::kAttention, read.heads);
  AddMatrix(weights, "self_attn.q_a_proj", Role::kAttention, read.hidden, read.query_rank);
  AddNorm(weights, "self_attn.q_a_norm", read.query_rank);
  AddMatrix(weights, "self_attn.q_b_proj", Role::kAttention, read.query_rank,
            read.heads * read.head_dim);
  AddMatrix(weights, "self_attn.kv_proj", Role::kAttention, read.hidden, read.head_dim);
  AddNorm(weights, "self_attn.kv_norm", read.head_dim);
  weights.push_back({.name = "self_attn.o_a_proj",
                     .role = Role::kAttention,
                     .in = read.heads * read.head_dim / read.output_groups,
                     .out = read.output_rank,
                     .copies = read.output_groups,
                     .uses = static_cast<double>(read.output_groups)});
  AddMatrix(weights, "self_attn.o_b_proj", Role::kAttention, read.output_groups * read.output_rank,
            read.hidden);
  layer.attention = Attention{.heads = read.heads,
                              .kv_heads = 1,
                              .key_dim = read.head_dim,
                              .value_dim = read.head_dim,
                              .window = read.window};
}

// Makes one entry of `ratio` keys; `wide`: of twice as many, overlapping.
void AddCompressor(Layer& layer, std::string prefix, int64_t hidden, int64_t width, int64_t ratio,
                   bool wide) {
  int64_t out = width * (wide ? 2 : 1);
  AddVector(layer.weights, prefix + ".position_bias", Role::kAttention, ratio * out);
  AddMatrix(layer.weights, prefix + ".kv_proj", Role::kAttention, hidden, out);
  AddMatrix(layer.weights, prefix + ".gate_proj", Role::kAttention, hidden, out);
  AddNorm(layer.weights, prefix + ".kv_norm", width);
}

std::string RatioKind(int64_t ratio, const Experts& experts) {
  return absl::StrCat(ratio == 0 ? "sliding attention" : absl::StrCat("attention 1:", ratio), " + ",
                      experts.count, " experts");
}

// By layer, 0 for a window alone; longer than the model where prediction layers follow.
std::vector<int64_t> ReadRatios(Fields& fields, int64_t layers) {
  std::vector<int64_t> ratios = fields.Ints("compress_ratios", layers);
  if (!ratios.empty()) return ratios;
  std::vector<std::string> types = ReadTypes(fields, layers);
  for (int64_t depth = 0; depth < layers; ++depth) {
    // Without a list: the first two and then every other layer heavily compressed.
    bool heavy = types.empty() ? depth < 2 || depth % 2 == 0
                               : types[depth] == "heavily_compressed_attention";
    bool plain = !types.empty() && types[depth] == "sliding_attention";
    ratios.push_back(plain ? 0 : heavy ? 128 : 4);
  }
  return ratios;
}

}  // namespace

void DeepseekV3(Fields& fields, ModelShape& shape) {
  AddEnds(fields, shape);
  Latent latent = ReadLatent(fields);
  Experts experts = ReadExperts(fields, shape);
  int64_t layers = fields.Need("num_hidden_layers", kMaxLayers);
  auto sparse_layer = [&] {
    Layer layer =
        Block(absl::StrCat("latent attention + ", experts.count, " experts"), shape.hidden_size);
    AddLatentAttention(layer, latent);
    AddExperts(layer, experts);
    return layer;
  };
  for (bool sparse : ReadSparse(fields, layers, 0)) {
    if (sparse) {
      AddLayer(shape, sparse_layer());
      continue;
    }
    Layer layer = Block("latent attention + mlp", shape.hidden_size);
    AddLatentAttention(layer, latent);
    AddGatedMlp(layer, "mlp", shape.hidden_size, fields.Need("intermediate_size"));
    AddLayer(shape, std::move(layer));
  }
  shape.mtp_depths = fields.Or("num_nextn_predict_layers", 0);
  if (shape.mtp_depths > 0) {
    shape.mtp = sparse_layer();
    AddPredictionEnds(*shape.mtp, shape.hidden_size);
  }
}

// DeepSeek sparse attention; most layers use the picks of an earlier one.
void GlmMoeDsa(Fields& fields, ModelShape& shape) {
  AddEnds(fields, shape);
  Latent latent = ReadLatent(fields);
  latent.query_rank = fields.Need("q_lora_rank");
  Experts experts = ReadExperts(fields, shape);
  Indexer indexer{.heads = fields.Need("index_n_heads"),
                  .dim = fields.Need("index_head_dim"),
                  .top_k = fields.Need("index_topk")};
  int64_t layers = fields.Need("num_hidden_layers", kMaxLayers);
  std::vector<bool> sparse = ReadSparse(fields, layers, 3);
  std::vector<bool> shared = ReadShared(fields, layers);
  auto make = [&](bool experts_here, bool shared_here) {
    std::string kind = shared_here ? "sparse attention" : "sparse attention with indexer";
    Layer layer =
        Block(experts_here ? absl::StrCat(kind, " + ", experts.count, " experts") : kind + " + mlp",
              shape.hidden_size);
    AddLatentAttention(layer, latent);
    indexer.shared = shared_here;
    AddIndexer(layer, latent, indexer);
    if (experts_here) {
      AddExperts(layer, experts);
    } else {
      AddGatedMlp(layer, "mlp", shape.hidden_size, fields.Need("intermediate_size"));
    }
    return layer;
  };
  for (int64_t depth = 0; depth < layers; ++depth) {
    AddLayer(shape, make(sparse[depth], shared[depth]));
  }
  shape.mtp_depths = fields.Or("num_nextn_predict_layers", 0);
  if (shape.mtp_depths > 0) {
    shape.mtp = make(true, false);
    AddPredictionEnds(*shape.mtp, shape.hidden_size);
  }
}

void DeepseekV4(Fields& fields, ModelShape& shape) {
  AddEnds(fields, shape);
  Compressed attention = ReadCompressed(fields);
  Experts experts = ReadExperts(fields, shape);
  int64_t index_heads = fields.Need("index_n_heads");
  int64_t index_dim = fields.Need("index_head_dim");
  int64_t top_k = fields.Need("index_topk");
  shape.residual_streams = fields.Need("hc_mult");
  int64_t layers = fields.Need("num_hidden_layers", kMaxLayers);
  auto make = [&](int64_t ratio) {
    Layer layer = Block(RatioKind(ratio, experts), shape.hidden_size);
    AddCompressed(layer, attention);
    AddHyperConnections(layer, shape.hidden_size, shape.residual_streams);
    AddExperts(layer, experts);
    layer.attention->compress_ratio = ratio;
    if (ratio == 0) return layer;
    bool picks = ratio == 4;  // the lightly compressed layers overlap their entries and pick
    AddCompressor(layer, "self_attn.compressor", shape.hidden_size, attention.head_dim, ratio,
                  picks);
    if (!picks) return layer;
    const std::string prefix = "self_attn.compressor.indexer";
    AddCompressor(layer, prefix, shape.hidden_size, index_dim, ratio, true);
    AddMatrix(layer.weights, prefix + ".q_b_proj", Role::kAttention, attention.query_rank,
              index_heads * index_dim);
    AddMatrix(layer.weights, prefix + ".scorer.weights_proj", Role::kAttention, shape.hidden_size,
              index_heads);
    layer.attention->top_k = top_k;
    layer.attention->index_heads = index_heads;
    layer.attention->index_dim = index_dim;
    return layer;
  };
  for (int64_t ratio : ReadRatios(fields, layers)) AddLayer(shape, make(ratio));
  int64_t streams = shape.residual_streams;
  AddBare(shape.head, "hc_head.hc_fn", Role::kOther, streams * shape.hidden_size, streams);
  AddVector(shape.head, "hc_head.hc_base", Role::kOther, streams);
  AddVector(shape.head, "hc_head.hc_scale", Role::kOther, 1);
  shape.mtp_depths = fields.Or("num_nextn_predict_layers", 0);
  if (shape.mtp_depths > 0 && !fields.Has("dspark_block_size")) {
    shape.mtp = make(0);
    AddPredictionEnds(*shape.mtp, shape.hidden_size);
  }
}

// As V4, but compressed entries come from few source layers, so do the picks, and two layers add
// what n-gram tables hold ("engram").
void DeepseekV41(Fields& fields, ModelShape& shape) {
  AddEnds(fields, shape);
  Compressed attention = ReadCompressed(fields);
  Experts experts = ReadExperts(fields, shape);
  int64_t hidden = shape.hidden_size;
  int64_t index_heads = fields.Need("index_n_heads");
  int64_t index_dim = fields.Need("index_head_dim");
  int64_t top_k = fields.Need("index_topk");
  int64_t streams = shape.residual_streams = fields.Need("hc_mult");
  shape.tables_counted = false;
  std::vector<int64_t> entries = fields.Ints("kv_source_layer_ids");
  std::vector<int64_t> picks = fields.Ints("index_source_layer_ids");
  std::vector<int64_t> grams = fields.Ints("engram_layer_ids");
  std::vector<int64_t> rows = fields.Ints("engram_num_embeddings", 0, kMaxRows);
  if (rows.size() < grams.size()) {
    fields.Fail("engram_num_embeddings", absl::StrCat("has ", rows.size(), " entries for ",
                                                      grams.size(), " engram_layer_ids"));
    rows.resize(grams.size());
  }
  int64_t gram_dim = grams.empty() ? 0 : fields.Need("engram_head_dim");
  int64_t columns =
      grams.empty() ? 0
                    : (fields.Need("engram_max_ngram_size") - 1) * fields.Need("engram_n_heads");
  auto holds = [](const std::vector<int64_t>& list, int64_t depth) {
    return std::find(list.begin(), list.end(), depth) != list.end();
  };
  int64_t layers = fields.Need("num_hidden_layers", kMaxLayers);
  std::vector<int64_t> ratios = ReadRatios(fields, layers);
  for (int64_t depth = 0; depth < layers; ++depth) {
    int64_t ratio = ratios[depth];
    Layer layer = Block(RatioKind(ratio, experts), hidden);
    AddCompressed(layer, attention);
    AddHyperConnections(layer, hidden, streams);
    AddExperts(layer, experts);
    layer.attention->compress_ratio = ratio;
    layer.attention->top_k = ratio > 0 ? top_k : 0;
    const std::string prefix = "self_attn.compressor";
    if (holds(picks, depth)) {
      layer.kind += ", picks";
      AddMatrix(layer.weights, prefix + ".indexer.q_b_proj", Role::kAttention, attention.query_rank,
                index_heads * index_dim);
      AddMatrix(layer.weights, prefix + ".indexer.scorer.weights_proj", Role::kAttention, hidden,
                index_heads);
      layer.attention->index_heads = index_heads;
      layer.attention->index_dim = index_dim;
    }
    if (holds(entries, depth)) {
      layer.kind += ", source";
      AddMatrix(layer.weights, prefix + ".indexer.k_proj", Role::kAttention, attention.head_dim,
                index_dim);
      AddNorm(layer.weights, prefix + ".indexer.k_norm", index_dim);
      AddMatrix(layer.weights, prefix + ".kv_proj", Role::kAttention, hidden, attention.head_dim);
      AddNorm(layer.weights, prefix + ".kv_norm", attention.head_dim);
      if (ratio > 1) {  // one key alone needs no weighing
        AddMatrix(layer.weights, prefix + ".gate_proj", Role::kAttention, hidden,
                  attention.head_dim);
      }
    }
    if (auto gram = std::find(grams.begin(), grams.end(), depth); gram != grams.end()) {
      layer.kind += ", n-grams";
      Weight table{.name = "engram.embed",
                   .role = Role::kOther,
                   .in = gram_dim,
                   .out = rows[static_cast<size_t>(gram - grams.begin())],
                   .uses = 0,
                   .linear = false};
      layer.weights.push_back(table);
      AddMatrix(layer.weights, "engram.wkv", Role::kOther, columns * gram_dim,
                hidden * (streams + 1));
      AddVector(layer.weights, "engram.q_weight", Role::kOther, streams * hidden);
      AddVector(layer.weights, "engram.k_weight", Role::kOther, streams * hidden);
    }
    AddLayer(shape, std::move(layer));
  }
  shape.mtp_depths = fields.Or("num_nextn_predict_layers", 0);
}

}  // namespace am::model

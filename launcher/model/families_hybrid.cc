// Decoders that mix linear attention with softmax attention. Structure and module names: Hugging
// Face transformers, modeling_qwen3_next.py, modeling_qwen3_5.py, modeling_qwen4_exp.py,
// modeling_kimi_linear.py, modeling_glm5_next.py.
#include <absl/strings/str_cat.h>

#include <algorithm>

#include "launcher/model/families.h"
#include "launcher/model/parts.h"

namespace am::model {
namespace {

constexpr int64_t kScanChunk = 64;  // of the gated delta kernels

// --- Gated DeltaNet (arXiv 2412.06464) -----------------------------------------------------------

struct GatedDelta {
  int64_t hidden = 0, key_heads = 0, value_heads = 0, key_dim = 0, value_dim = 0, conv = 0;
};

GatedDelta ReadGatedDelta(Fields& fields) {
  return {.hidden = fields.Need("hidden_size"),
          .key_heads = fields.Need("linear_num_key_heads"),
          .value_heads = fields.Need("linear_num_value_heads"),
          .key_dim = fields.Need("linear_key_head_dim"),
          .value_dim = fields.Need("linear_value_head_dim"),
          .conv = fields.Or("linear_conv_kernel_dim", 4)};
}

// `fused`: queries, keys, values and gate from one matrix, as Qwen3-Next has them.
void AddGatedDelta(Layer& layer, const GatedDelta& read, bool fused) {
  std::vector<Weight>& weights = layer.weights;
  int64_t key = read.key_heads * read.key_dim;
  int64_t value = read.value_heads * read.value_dim;
  const std::string prefix = "linear_attn.";
  auto project = [&](const char* module, int64_t out) {
    AddMatrix(weights, prefix + module, Role::kMixer, read.hidden, out);
  };
  if (fused) {
    project("in_proj_qkvz", 2 * key + 2 * value);
    project("in_proj_ba", 2 * read.value_heads);
  } else {
    project("in_proj_qkv", 2 * key + value);
    project("in_proj_z", value);
    project("in_proj_b", read.value_heads);
    project("in_proj_a", read.value_heads);
  }
  AddBare(weights, prefix + "conv1d", Role::kMixer, read.conv, 2 * key + value);
  AddVector(weights, prefix + "dt_bias", Role::kMixer, read.value_heads);
  AddVector(weights, prefix + "A_log", Role::kMixer, read.value_heads);
  AddNorm(weights, prefix + "norm", read.value_dim);
  AddMatrix(weights, prefix + "out_proj", Role::kMixer, value, read.hidden);
  layer.scan = Scan{.kind = Scan::Kind::kGatedDelta,
                    .heads = read.value_heads,
                    .key_dim = read.key_dim,
                    .value_dim = read.value_dim,
                    .groups = read.key_heads,
                    .conv_width = read.conv,
                    .conv_channels = 2 * key + value,
                    .chunk = kScanChunk};
}

// True where the layer is linear attention.
std::vector<bool> ReadLinear(Fields& fields, int64_t layers) {
  std::vector<std::string> types = ReadTypes(fields, layers);
  int64_t every = std::max<int64_t>(fields.Or("full_attention_interval", 4), 1);
  std::vector<bool> linear;
  for (int64_t depth = 0; depth < layers; ++depth) {
    linear.push_back(types.empty() ? (depth + 1) % every != 0 : types[depth] == "linear_attention");
  }
  return linear;
}

GroupedQuery ReadGatedAttention(Fields& fields) {
  GroupedQuery attention = ReadGroupedQuery(fields);
  attention.qkv_bias = attention.output_bias = fields.Flag("attention_bias", false);
  attention.head_norms = true;
  attention.query_gate = fields.Flag("attn_output_gate", true);
  return attention;
}

Experts ReadQwenExperts(Fields& fields, ModelShape& shape) {
  Experts experts{.hidden = shape.hidden_size,
                  .width = fields.Need("moe_intermediate_size"),
                  .count = fields.Need("num_experts"),
                  .per_token = fields.Need("num_experts_per_tok"),
                  .shared_width = fields.Need("shared_expert_intermediate_size"),
                  .shared_gate = true,
                  .shared = "shared_expert"};
  NoteExperts(shape, experts);
  return experts;
}

// Qwen's prediction block: norms of both inputs, one matrix that joins them, a layer, a norm.
void AddQwenPredictionEnds(Layer& layer, int64_t hidden) {
  AddNorm(layer.weights, "pre_fc_norm_embedding", hidden);
  AddNorm(layer.weights, "pre_fc_norm_hidden", hidden);
  AddMatrix(layer.weights, "fc", Role::kOther, 2 * hidden, hidden);
  AddNorm(layer.weights, "norm", hidden);
}

// --- Qwen3.8-Flash-Next
// ---------------------------------------------------------------------------

bool IsPrime(int64_t value) {
  if (value % 2 == 0) return value == 2;
  for (int64_t divisor = 3; divisor * divisor <= value; divisor += 2) {
    if (value % divisor == 0) return false;
  }
  return value > 1;
}

// Rows of a hashed n-gram table: every head of every order has the next prime from `base` on.
class NGramTables {
 public:
  NGramTables(int64_t base, int64_t heads, int64_t multiple)
      : next_(base), heads_(heads), multiple_(multiple) {}
  int64_t NextTable() {
    int64_t rows = 0;
    for (int64_t head = 0; head < heads_; ++head) {
      while (!IsPrime(next_)) ++next_;
      rows += next_++;
    }
    return (rows + multiple_ - 1) / multiple_ * multiple_;
  }

 private:
  int64_t next_, heads_, multiple_;
};

// A hyper-connection with a low-rank mixer of its inputs (Qwen4ExpTextGatedResidual).
void AddGatedResidual(std::vector<Weight>& weights, std::string prefix, int64_t streams,
                      int64_t hidden, int64_t rank, bool injects) {
  int64_t wide = streams * hidden;
  AddVector(weights, prefix + ".hc_norm.weight", Role::kOther, wide);
  AddMatrix(weights, prefix + ".input_mix_weight_down", Role::kOther, wide, rank);
  AddMatrix(weights, prefix + ".input_mix_weight_up", Role::kOther, rank, wide);
  if (injects) AddMatrix(weights, prefix + ".block_inject_weight", Role::kOther, wide, streams);
}

// --- Kimi Delta Attention (arXiv 2510.26692)
// --------------------------------------------------------

struct KimiDelta {
  int64_t hidden = 0, heads = 0, dim = 0, conv = 0;
};

KimiDelta ReadKimiDelta(Fields& fields, int64_t hidden) {
  KimiDelta read{.hidden = hidden};
  if (fields.Has("linear_attn_config")) {
    Fields inner = fields.In("linear_attn_config");
    read.heads = inner.Need("num_heads");
    read.dim = inner.Need("head_dim");
    read.conv = inner.Or("short_conv_kernel_size", 4);
  } else {
    read.heads = fields.Need("linear_num_heads");
    read.dim = fields.Need("linear_head_dim");
    read.conv = fields.Or("linear_conv_kernel_dim", 4);
  }
  return read;
}

void AddKimiDelta(Layer& layer, const KimiDelta& read) {
  std::vector<Weight>& weights = layer.weights;
  int64_t wide = read.heads * read.dim;
  const std::string prefix = "self_attn.";
  auto project = [&](const char* module, int64_t in, int64_t out) {
    AddMatrix(weights, prefix + module, Role::kMixer, in, out);
  };
  project("q_proj", read.hidden, wide);
  project("k_proj", read.hidden, wide);
  project("v_proj", read.hidden, wide);
  AddBare(weights, prefix + "conv1d", Role::kMixer, read.conv, 3 * wide);
  AddVector(weights, prefix + "forget_gate.dt_bias", Role::kMixer, wide);
  AddVector(weights, prefix + "forget_gate.A_log", Role::kMixer, read.heads);
  project("forget_gate.f_a_proj", read.hidden, read.dim);
  project("forget_gate.f_b_proj", read.dim, wide);
  project("b_proj", read.hidden, read.heads);
  project("g_a_proj", read.hidden, read.dim);
  project("g_b_proj", read.dim, wide);
  AddNorm(weights, prefix + "o_norm", read.dim);
  project("o_proj", wide, read.hidden);
  layer.scan = Scan{.kind = Scan::Kind::kKimiDelta,
                    .heads = read.heads,
                    .key_dim = read.dim,
                    .value_dim = read.dim,
                    .groups = read.heads,
                    .conv_width = read.conv,
                    .conv_channels = 3 * wide,
                    .chunk = kScanChunk};
}

}  // namespace

void Qwen3Next(Fields& fields, ModelShape& shape) {
  AddEnds(fields, shape);
  GroupedQuery attention = ReadGatedAttention(fields);
  GatedDelta delta = ReadGatedDelta(fields);
  Experts experts = ReadQwenExperts(fields, shape);
  int64_t layers = fields.Need("num_hidden_layers", kMaxLayers);
  std::vector<bool> linear = ReadLinear(fields, layers);
  std::vector<bool> sparse = ReadSparseSteps(fields, layers);
  auto make = [&](bool linear_here, bool sparse_here) {
    std::string kind = linear_here ? "gated delta" : "gated attention";
    Layer layer =
        Block(sparse_here ? absl::StrCat(kind, " + ", experts.count, " experts") : kind + " + mlp",
              shape.hidden_size);
    if (linear_here) {
      AddGatedDelta(layer, delta, true);
    } else {
      AddAttention(layer, attention);
    }
    if (sparse_here) {
      AddExperts(layer, experts);
    } else {
      AddGatedMlp(layer, "mlp", shape.hidden_size, fields.Need("intermediate_size"));
    }
    return layer;
  };
  for (int64_t depth = 0; depth < layers; ++depth) {
    AddLayer(shape, make(linear[depth], sparse[depth]));
  }
  // config.json does not name the one prediction block of the checkpoint.
  shape.mtp_depths =
      fields.Or("mtp_num_hidden_layers", fields.Or("mtp_num_layers_in_checkpoint", 0));
  if (shape.mtp_depths > 0) {
    shape.mtp = make(false, true);
    AddQwenPredictionEnds(*shape.mtp, shape.hidden_size);
  }
}

// Qwen3.5, 3.6, 3.8: dense, or with experts in every layer.
void Qwen35(Fields& fields, ModelShape& shape) {
  AddEnds(fields, shape);
  GroupedQuery attention = ReadGatedAttention(fields);
  GatedDelta delta = ReadGatedDelta(fields);
  std::optional<Experts> experts;
  if (fields.Has("num_experts")) experts = ReadQwenExperts(fields, shape);
  int64_t width = experts ? 0 : fields.Need("intermediate_size");
  int64_t layers = fields.Need("num_hidden_layers", kMaxLayers);
  auto make = [&](bool linear_here) {
    std::string kind = linear_here ? "gated delta" : "gated attention";
    Layer layer =
        Block(experts ? absl::StrCat(kind, " + ", experts->count, " experts") : kind + " + mlp",
              shape.hidden_size);
    if (linear_here) {
      AddGatedDelta(layer, delta, false);
    } else {
      AddAttention(layer, attention);
    }
    if (experts) {
      AddExperts(layer, *experts);
    } else {
      AddGatedMlp(layer, "mlp", shape.hidden_size, width);
    }
    return layer;
  };
  for (bool linear : ReadLinear(fields, layers)) AddLayer(shape, make(linear));
  shape.mtp_depths = fields.Or("mtp_num_hidden_layers", 0);
  if (shape.mtp_depths > 0) {
    shape.mtp = make(false);
    AddQwenPredictionEnds(*shape.mtp, shape.hidden_size);
  }
}

// Hyper-connections in place of norms, an indexer before full attention, n-gram tables.
void Qwen4Exp(Fields& fields, ModelShape& shape) {
  AddEnds(fields, shape);
  int64_t hidden = shape.hidden_size;
  GroupedQuery attention = ReadGatedAttention(fields);
  GatedDelta delta = ReadGatedDelta(fields);
  Experts experts = ReadQwenExperts(fields, shape);
  int64_t streams = shape.residual_streams = fields.Or("hc_count", 4);
  int64_t rank = fields.Or("hc_lowrank", 320);
  bool picks = fields.Has("indexer_n_heads");
  int64_t index_heads = picks ? fields.Need("indexer_n_heads") : 0;
  int64_t index_keys = picks ? fields.Need("indexer_kv_heads") : 0;
  int64_t index_dim = picks ? fields.Need("indexer_head_dim") : 0;

  std::vector<int64_t> grams = fields.Ints("ple_layer_ids");  // from 1
  std::sort(grams.begin(), grams.end());
  grams.erase(std::unique(grams.begin(), grams.end()), grams.end());
  constexpr int64_t kMaxTables = 8, kMaxGramHeads = 128;
  if (grams.size() > static_cast<size_t>(kMaxTables)) {
    fields.Fail("ple_layer_ids", absl::StrCat("has ", grams.size(), " entries"));
    grams.resize(kMaxTables);
  }
  int64_t gram_heads = (fields.Or("ngram_size", 3) - 1) * fields.Or("heads_per_ngram", 8);
  int64_t gram_width = fields.Or("ple_embed_dim", hidden);
  int64_t gram_conv = fields.Or("ple_conv_kernel_size", 4);
  if (!grams.empty() && (gram_heads < 1 || gram_heads > kMaxGramHeads)) {
    fields.Fail("heads_per_ngram", absl::StrCat("makes ", gram_heads, " n-gram heads"));
  }
  NGramTables tables(fields.Or("ngram_vocab_size_base", 20'000'000, int64_t{1} << 30),
                     fields.ok() ? gram_heads : 0,
                     std::max<int64_t>(fields.Or("make_ngram_vocab_size_divisible_by", 128), 1));

  int64_t layers = fields.Need("num_hidden_layers", kMaxLayers);
  std::vector<bool> linear = ReadLinear(fields, layers);
  for (int64_t depth = 0; depth < layers; ++depth) {
    Layer layer{.kind = absl::StrCat(linear[depth] ? "gated delta" : "sparse attention", " + ",
                                     experts.count, " experts")};
    AddGatedResidual(layer.weights, "attn_hyper_connection", streams, hidden, rank, true);
    AddGatedResidual(layer.weights, "mlp_hyper_connection", streams, hidden, rank, true);
    if (linear[depth]) {
      AddGatedDelta(layer, delta, false);
    } else {
      AddAttention(layer, attention);
      if (picks) {
        AddMatrix(layer.weights, "self_attn.indexer.index_qk_proj", Role::kAttention, hidden,
                  (index_heads + index_keys) * index_dim);
        AddNorm(layer.weights, "self_attn.indexer.q_layernorm", index_dim);
        AddNorm(layer.weights, "self_attn.indexer.k_layernorm", index_dim);
        layer.attention->index_heads = index_heads;
        layer.attention->index_dim = index_dim;
        layer.attention->top_k = fields.Need("indexer_budget");
        layer.attention->block = fields.Need("indexer_compress_ratio");
      }
    }
    AddExperts(layer, experts);
    if (std::find(grams.begin(), grams.end(), depth + 1) != grams.end()) {
      layer.kind += ", n-grams";
      layer.weights.push_back({.name = "ple.ple_embedding.ngram_embedding",
                               .role = Role::kOther,
                               .in = gram_width / std::max<int64_t>(gram_heads, 1),
                               .out = tables.NextTable(),
                               .uses = 0,
                               .linear = false});
      AddMatrix(layer.weights, "ple.key_proj", Role::kOther, gram_width, streams * hidden);
      AddMatrix(layer.weights, "ple.value_proj", Role::kOther, gram_width, hidden);
      for (const char* norm : {"ple.norm_key", "ple.norm_query", "ple.norm_conv"}) {
        AddNorm(layer.weights, norm, streams * hidden);
      }
      AddBare(layer.weights, "ple.conv1d", Role::kOther, gram_conv, streams * hidden);
    }
    AddLayer(shape, std::move(layer));
  }
  // A last mixer in place of the final norm.
  shape.head.erase(shape.head.begin());
  AddGatedResidual(shape.head, "hyper_connection_mixer", streams, hidden, rank, false);
  shape.mtp_depths = fields.Or("mtp_num_hidden_layers", 0);
}

void KimiLinear(Fields& fields, ModelShape& shape) {
  AddEnds(fields, shape);
  Latent latent = ReadLatent(fields);
  KimiDelta delta = ReadKimiDelta(fields, shape.hidden_size);
  Experts experts{.hidden = shape.hidden_size,
                  .width = fields.Need("moe_intermediate_size"),
                  .count = fields.Need({"num_experts", "num_local_experts"}),
                  .per_token = fields.Need({"num_experts_per_tok", "num_experts_per_token"})};
  experts.shared_width =
      fields.Or("num_shared_experts", fields.Or("n_shared_experts", 1)) * experts.width;
  NoteExperts(shape, experts);
  int64_t layers = fields.Need("num_hidden_layers", kMaxLayers);
  std::vector<std::string> types = ReadTypes(fields, layers);
  std::vector<int64_t> full;  // from 1
  if (types.empty() && fields.Has("linear_attn_config")) {
    full = fields.In("linear_attn_config").Ints("full_attn_layers");
  }
  std::vector<bool> sparse = ReadSparse(fields, layers, 1);
  for (int64_t depth = 0; depth < layers; ++depth) {
    bool linear = types.empty() ? std::find(full.begin(), full.end(), depth + 1) == full.end()
                                : types[depth] == "linear_attention";
    std::string kind = linear ? "delta attention" : "latent attention";
    Layer layer = Block(
        sparse[depth] ? absl::StrCat(kind, " + ", experts.count, " experts") : kind + " + mlp",
        shape.hidden_size);
    if (linear) {
      AddKimiDelta(layer, delta);
    } else {
      AddLatentAttention(layer, latent);
    }
    if (sparse[depth]) {
      AddExperts(layer, experts);
    } else {
      AddGatedMlp(layer, "mlp", shape.hidden_size, fields.Need("intermediate_size"));
    }
    AddLayer(shape, std::move(layer));
  }
}

// Kimi delta attention, sparse latent attention whose indexer pools keys by block,
// hyper-connections.
void Glm5Next(Fields& fields, ModelShape& shape) {
  AddEnds(fields, shape);
  Latent latent = ReadLatent(fields);
  latent.query_rank = fields.Need("q_lora_rank");
  KimiDelta delta = ReadKimiDelta(fields, shape.hidden_size);
  Indexer indexer{.heads = fields.Need("index_n_heads"),
                  .dim = fields.Need("index_head_dim"),
                  .top_k = fields.Need("index_topk"),
                  .block = std::max<int64_t>(fields.Or("index_kpool", 16), 1)};
  Experts experts{.hidden = shape.hidden_size,
                  .width = fields.Need("moe_intermediate_size"),
                  .count = fields.Need("n_routed_experts"),
                  .per_token = fields.Need("num_experts_per_tok")};
  experts.shared_width = fields.Or("n_shared_experts", 0) * experts.width;
  NoteExperts(shape, experts);
  shape.residual_streams = fields.Or("hc_mult", 4);
  int64_t layers = fields.Need("num_hidden_layers", kMaxLayers);
  std::vector<bool> linear = ReadLinear(fields, layers);
  std::vector<std::string> picks = fields.Words("indexer_types", layers);
  std::vector<bool> sparse = ReadSparse(fields, layers, 3);
  auto make = [&](bool linear_here, bool sparse_here, bool shared, bool streams) {
    std::string kind = linear_here ? "delta attention" : "sparse attention";
    Layer layer =
        Block(sparse_here ? absl::StrCat(kind, " + ", experts.count, " experts") : kind + " + mlp",
              shape.hidden_size);
    if (linear_here) {
      AddKimiDelta(layer, delta);
    } else {
      AddLatentAttention(layer, latent);
      indexer.shared = shared;
      AddIndexer(layer, latent, indexer);
    }
    if (sparse_here) {
      AddExperts(layer, experts);
    } else {
      AddGatedMlp(layer, "mlp", shape.hidden_size, fields.Need("intermediate_size"));
    }
    if (streams) AddHyperConnections(layer, shape.hidden_size, shape.residual_streams);
    return layer;
  };
  for (int64_t depth = 0; depth < layers; ++depth) {
    bool shared = !picks.empty() && picks[depth] == "shared";
    AddLayer(shape, make(linear[depth], sparse[depth], shared, true));
  }
  shape.mtp_depths = fields.Or("num_nextn_predict_layers", 0);
  if (shape.mtp_depths > 0) {  // one plain block
    shape.mtp = make(false, true, false, false);
    AddPredictionEnds(*shape.mtp, shape.hidden_size);
  }
}

}  // namespace am::model

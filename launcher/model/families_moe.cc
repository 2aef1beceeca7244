// Decoders with routed experts behind grouped-query attention. Structure and module names: Hugging
// Face transformers, modeling_qwen3_moe.py, modeling_mixtral.py, modeling_gpt_oss.py,
// modeling_glm4_moe.py, modeling_mimo_v2_flash.py, modeling_laguna.py; experts are named as
// checkpoints name them, one matrix each.
#include <absl/strings/str_cat.h>

#include "launcher/model/families.h"
#include "launcher/model/parts.h"

namespace am::model {
namespace {

std::string ExpertKind(const Experts& experts) {
  return absl::StrCat("attention + ", experts.count, " experts");
}

}  // namespace

void Qwen3Moe(Fields& fields, ModelShape& shape) {
  AddEnds(fields, shape);
  GroupedQuery attention = ReadGroupedQuery(fields);
  attention.qkv_bias = attention.output_bias = fields.Flag("attention_bias", false);
  attention.head_norms = true;
  Experts experts{.hidden = shape.hidden_size,
                  .width = fields.Need("moe_intermediate_size"),
                  .count = fields.Need({"num_experts", "num_local_experts"}),
                  .per_token = fields.Need("num_experts_per_tok")};
  NoteExperts(shape, experts);
  int64_t layers = fields.Need("num_hidden_layers", kMaxLayers);
  for (bool sparse : ReadSparseSteps(fields, layers)) {
    Layer layer = Block(sparse ? ExpertKind(experts) : "attention + mlp", shape.hidden_size);
    AddAttention(layer, attention);
    if (sparse) {
      AddExperts(layer, experts);
    } else {
      AddGatedMlp(layer, "mlp", shape.hidden_size, fields.Need("intermediate_size"));
    }
    AddLayer(shape, std::move(layer));
  }
}

void Mixtral(Fields& fields, ModelShape& shape) {
  AddEnds(fields, shape);
  GroupedQuery attention = ReadGroupedQuery(fields);
  attention.window = fields.Or("sliding_window", 0, kMaxRows);
  Experts experts{.hidden = shape.hidden_size,
                  .width = fields.Need("intermediate_size"),
                  .count = fields.Need("num_local_experts"),
                  .per_token = fields.Need("num_experts_per_tok")};
  NoteExperts(shape, experts);
  Layer layer = Block(ExpertKind(experts), shape.hidden_size);
  AddAttention(layer, attention);
  AddExperts(layer, experts);
  int64_t layers = fields.Need("num_hidden_layers", kMaxLayers);
  for (int64_t depth = 0; depth < layers; ++depth) AddLayer(shape, layer);
}

// Sinks, biases everywhere, every other layer a sliding window.
void GptOss(Fields& fields, ModelShape& shape) {
  AddEnds(fields, shape);
  GroupedQuery attention = ReadGroupedQuery(fields);
  attention.qkv_bias = attention.output_bias = fields.Flag("attention_bias", true);
  attention.sinks = true;
  int64_t window = fields.Or("sliding_window", 128, kMaxRows);
  Experts experts{.hidden = shape.hidden_size,
                  .width = fields.Need("intermediate_size"),
                  .count = fields.Need({"num_local_experts", "num_experts"}),
                  .per_token = fields.Need({"num_experts_per_tok", "experts_per_token"}),
                  .biases = true,
                  .router_bias = true,
                  .router = "router"};
  NoteExperts(shape, experts);
  int64_t layers = fields.Need("num_hidden_layers", kMaxLayers);
  std::vector<std::string> types = fields.Words("layer_types", layers);
  for (int64_t depth = 0; depth < layers; ++depth) {
    bool slides = types.empty() ? depth % 2 == 0 : types[depth] == "sliding_attention";
    attention.window = slides ? window : 0;
    Layer layer =
        Block(absl::StrCat(slides ? "sliding " : "", ExpertKind(experts)), shape.hidden_size);
    AddAttention(layer, attention);
    AddExperts(layer, experts);
    AddLayer(shape, std::move(layer));
  }
}

void Glm4Moe(Fields& fields, ModelShape& shape) {
  AddEnds(fields, shape);
  GroupedQuery attention = ReadGroupedQuery(fields);
  attention.qkv_bias = fields.Flag("attention_bias", false);
  attention.head_norms = fields.Flag("use_qk_norm", false);
  Experts experts{.hidden = shape.hidden_size,
                  .width = fields.Need("moe_intermediate_size"),
                  .count = fields.Need("n_routed_experts"),
                  .per_token = fields.Need("num_experts_per_tok")};
  experts.shared_width = fields.Or("n_shared_experts", 0) * experts.width;
  NoteExperts(shape, experts);
  int64_t layers = fields.Need("num_hidden_layers", kMaxLayers);
  auto sparse_layer = [&] {
    Layer layer = Block(ExpertKind(experts), shape.hidden_size);
    AddAttention(layer, attention);
    AddExperts(layer, experts);
    return layer;
  };
  for (bool sparse : ReadSparse(fields, layers, 1)) {
    if (sparse) {
      AddLayer(shape, sparse_layer());
      continue;
    }
    Layer layer = Block("attention + mlp", shape.hidden_size);
    AddAttention(layer, attention);
    AddGatedMlp(layer, "mlp", shape.hidden_size, fields.Need("intermediate_size"));
    AddLayer(shape, std::move(layer));
  }
  shape.mtp_depths = fields.Or("num_nextn_predict_layers", 0);
  if (shape.mtp_depths > 0) {
    shape.mtp = sparse_layer();
    AddPredictionEnds(*shape.mtp, shape.hidden_size);
  }
}

// Sliding layers with sinks and twice the key heads; keys are wider than values. Built as
// MiMoV2FlashForCausalLM builds it, whose layers take their type from their place unless
// layer_types names it: the published counts follow that. (The Pro models' files also carry
// hybrid_layer_pattern and swa_num_key_value_heads, by which they would be 0.09 % smaller.)
void MimoV2(Fields& fields, ModelShape& shape) {
  AddEnds(fields, shape);
  GroupedQuery full = ReadGroupedQuery(fields);
  full.value_dim = fields.Or("v_head_dim", full.key_dim);
  full.qkv_bias = fields.Flag("attention_bias", false);
  full.fused = fields.Word("attention_projection_layout") == "fused_qkv";
  GroupedQuery sliding = full;
  sliding.kv_heads = 2 * full.kv_heads;
  sliding.window = fields.Need({"sliding_window", "sliding_window_size"}, kMaxRows);
  sliding.sinks = true;
  Experts experts{.hidden = shape.hidden_size,
                  .width = fields.Need("moe_intermediate_size"),
                  .count = fields.Need("n_routed_experts"),
                  .per_token = fields.Need("num_experts_per_tok")};
  experts.shared_width = fields.Or("n_shared_experts", 0) * experts.width;
  NoteExperts(shape, experts);
  int64_t layers = fields.Need("num_hidden_layers", kMaxLayers);
  std::vector<std::string> types = ReadTypes(fields, layers);
  std::vector<bool> sparse = ReadSparse(fields, layers, 1);
  auto make = [&](bool slides, bool experts_here) {
    std::string kind = slides ? "sliding attention" : "attention";
    Layer layer =
        Block(experts_here ? absl::StrCat(kind, " + ", experts.count, " experts") : kind + " + mlp",
              shape.hidden_size);
    AddAttention(layer, slides ? sliding : full);
    if (experts_here) {
      AddExperts(layer, experts);
    } else {
      AddGatedMlp(layer, "mlp", shape.hidden_size, fields.Need("intermediate_size"));
    }
    return layer;
  };
  for (int64_t depth = 0; depth < layers; ++depth) {
    bool slides =
        types.empty() ? depth != 0 && (depth + 1) % 6 != 0 : types[depth] == "sliding_attention";
    AddLayer(shape, make(slides, sparse[depth]));
  }
  shape.mtp_depths = fields.Or("num_nextn_predict_layers", 0);
  if (shape.mtp_depths > 0) {  // dense, with a window (the model card of MiMo-V2-Flash: 0.33B each)
    shape.mtp = make(true, false);
    AddPredictionEnds(*shape.mtp, shape.hidden_size);
  }
}

// Heads by layer, a gate on what attention gives.
void Laguna(Fields& fields, ModelShape& shape) {
  AddEnds(fields, shape);
  GroupedQuery attention = ReadGroupedQuery(fields);
  attention.qkv_bias = attention.output_bias = fields.Flag("attention_bias", false);
  attention.head_norms = true;
  bool by_head = !fields.IsText("gating") || fields.Word("gating") == "per-head";
  Experts experts{.hidden = shape.hidden_size,
                  .width = fields.Need("moe_intermediate_size"),
                  .count = fields.Need("num_experts"),
                  .per_token = fields.Need("num_experts_per_tok"),
                  .shared_width = fields.Need("shared_expert_intermediate_size")};
  NoteExperts(shape, experts);
  int64_t layers = fields.Need("num_hidden_layers", kMaxLayers);
  int64_t window = fields.Or("sliding_window", 512, kMaxRows);
  std::vector<int64_t> heads = fields.Ints("num_attention_heads_per_layer", layers);
  std::vector<std::string> types = ReadTypes(fields, layers);
  std::vector<bool> sparse = ReadSparse(fields, layers, 1);
  for (int64_t depth = 0; depth < layers; ++depth) {
    bool slides = !types.empty() && types[depth] == "sliding_attention";
    attention.window = slides ? window : 0;
    if (!heads.empty()) attention.heads = heads[depth];
    if (attention.heads < 1)
      fields.Fail("num_attention_heads_per_layer", "names a layer without heads");
    std::string kind = slides ? "sliding attention" : "attention";
    Layer layer = Block(
        sparse[depth] ? absl::StrCat(kind, " + ", experts.count, " experts") : kind + " + mlp",
        shape.hidden_size);
    AddAttention(layer, attention);
    AddMatrix(layer.weights, "self_attn.g_proj", Role::kAttention, shape.hidden_size,
              by_head ? attention.heads : attention.heads * attention.key_dim);
    if (sparse[depth]) {
      AddExperts(layer, experts);
      AddVector(layer.weights, "mlp.gate.e_score_correction_bias", Role::kRouter, experts.count);
    } else {
      AddGatedMlp(layer, "mlp", shape.hidden_size, fields.Need("intermediate_size"));
    }
    AddLayer(shape, std::move(layer));
  }
}

}  // namespace am::model

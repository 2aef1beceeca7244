// Models that make images. Structure and module names: HunyuanImage-3.0's released modeling code
// (the language model alone: its image towers' sizes are in no config.json), and Hugging Face
// diffusers, transformer_qwenimage21.py (the transformer that is trained; its text encoder and VAE
// are frozen).
#include <absl/strings/str_cat.h>

#include "launcher/model/families.h"
#include "launcher/model/parts.h"

namespace am::model {

void HunyuanImage3(Fields& fields, ModelShape& shape) {
  AddEnds(fields, shape);
  GroupedQuery attention = ReadGroupedQuery(fields);
  if (fields.Has("attention_head_dim")) attention.key_dim = fields.Need("attention_head_dim");
  attention.qkv_bias = attention.output_bias = fields.Flag("attention_bias", false);
  attention.head_norms = fields.Flag("use_qk_norm", true);
  attention.query_norm = "query_layernorm";
  attention.key_norm = "key_layernorm";
  attention.fused = true;
  Experts experts{.hidden = shape.hidden_size,
                  .width = fields.Need("moe_intermediate_size"),
                  .count = fields.Need("num_experts"),
                  .per_token = fields.Need({"moe_topk", "num_experts_per_tok"}),
                  .router = "gate.wg",
                  .shared = "shared_mlp"};
  if (fields.Flag("use_mixed_mlp_moe", false)) {
    experts.shared_width = fields.Or("num_shared_expert", 1) * fields.Need("intermediate_size");
  }
  NoteExperts(shape, experts);
  Layer layer = Block(absl::StrCat("attention + ", experts.count, " experts"), shape.hidden_size);
  AddAttention(layer, attention);
  AddExperts(layer, experts);
  int64_t layers = fields.Need("num_hidden_layers", kMaxLayers);
  for (int64_t depth = 0; depth < layers; ++depth) AddLayer(shape, layer);
}

// One stream of text and image tokens; what depends on the timestep is computed once an image.
void QwenImage(Fields& outer, ModelShape& shape) {
  Fields fields = outer.Has("transformer") ? outer.In("transformer") : outer;
  int64_t heads = fields.Need("num_attention_heads");
  int64_t head_dim = fields.Need("attention_head_dim");
  int64_t hidden = shape.hidden_size = heads * head_dim;
  int64_t side = fields.Or("patch_size", 1, kMaxSide);
  int64_t patch = side * side;
  int64_t in_channels = fields.Need("in_channels");
  int64_t text = fields.Need({"context_in_dim", "joint_attention_dim"});
  auto once = [](std::vector<Weight>& weights, std::string name, int64_t in, int64_t out) {
    AddMatrix(weights, std::move(name), Role::kOther, in, out);
    weights.back().uses = 0;
  };
  constexpr int64_t kTimestepDim = 256;
  AddMatrix(shape.embedding, "img_in", Role::kOther, in_channels * patch, hidden);
  AddNorm(shape.embedding, "txt_in.text_norm", text);
  AddMatrix(shape.embedding, "txt_in.in_layer", Role::kOther, text, hidden);
  AddMatrix(shape.embedding, "txt_in.out_layer", Role::kOther, hidden, hidden);
  once(shape.embedding, "time_text_embed.timestep_embedder.linear_1", kTimestepDim, hidden);
  once(shape.embedding, "time_text_embed.timestep_embedder.linear_2", hidden, hidden);
  once(shape.embedding, "modulation.1", hidden, 4 * hidden);

  Layer layer{.kind = "attention + mlp"};
  for (const char* module : {"attn.to_q", "attn.to_k", "attn.to_v", "attn.to_out.0"}) {
    AddMatrix(layer.weights, module, Role::kAttention, hidden, hidden);
  }
  AddNorm(layer.weights, "attn.norm_q", head_dim);
  AddNorm(layer.weights, "attn.norm_k", head_dim);
  int64_t width = hidden * fields.Or("mlp_ratio", 3);
  AddMatrix(layer.weights, "img_mlp.proj", Role::kMlp, hidden, width);
  AddMatrix(layer.weights, "img_mlp.gate_layer", Role::kMlp, hidden, width);
  AddMatrix(layer.weights, "img_mlp.out", Role::kMlp, width, hidden);
  layer.attention = Attention{.heads = heads,
                              .kv_heads = heads,
                              .key_dim = head_dim,
                              .value_dim = head_dim,
                              .causal = false};
  int64_t layers = fields.Need("num_layers", kMaxLayers);
  for (int64_t depth = 0; depth < layers; ++depth) AddLayer(shape, layer);

  once(shape.head, "norm_out.linear", hidden, hidden);
  AddMatrix(shape.head, "proj_out", Role::kOther, hidden,
            patch * fields.Or("out_channels", in_channels));
}

}  // namespace am::model

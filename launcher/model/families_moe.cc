// Decoders with routed experts behind grouped-query attention. Structure and module names: Hugging
// Face transformers, modeling_qwen3_moe.py, modeling_mixtral.py, modeling_gpt_oss.py; experts are
// named as checkpoints name them, one matrix each.
#include <absl/strings/str_cat.h>

#include <algorithm>

#include "launcher/model/families.h"
#include "launcher/model/parts.h"

namespace am::model {
namespace {

std::string ExpertKind(const Experts& experts) {
  return absl::StrCat("attention + ", experts.count, " experts");
}

void NoteExperts(ModelShape& shape, const Experts& experts) {
  shape.num_experts = experts.count;
  shape.experts_per_token = experts.per_token;
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
  int64_t step = std::max<int64_t>(fields.Or("decoder_sparse_step", 1), 1);
  std::vector<int64_t> dense = fields.Ints("mlp_only_layers");
  int64_t layers = fields.Need("num_hidden_layers", kMaxLayers);
  for (int64_t depth = 0; depth < layers; ++depth) {
    bool sparse =
        (depth + 1) % step == 0 && std::find(dense.begin(), dense.end(), depth) == dense.end();
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

}  // namespace am::model

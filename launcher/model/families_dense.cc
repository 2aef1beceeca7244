// Dense decoders. Structure and module names: Hugging Face transformers, modeling_llama.py,
// modeling_mistral.py, modeling_qwen2.py, modeling_qwen3.py.
#include "launcher/model/families.h"
#include "launcher/model/parts.h"

namespace am::model {
namespace {

// Equal layers of attention and a gated MLP.
void Decoder(Fields& fields, ModelShape& shape, const GroupedQuery& attention, bool mlp_bias) {
  AddEnds(fields, shape);
  Layer layer = Block("attention + mlp", shape.hidden_size);
  AddAttention(layer, attention);
  int64_t width = fields.Need("intermediate_size");
  AddGatedMlp(layer, "mlp", shape.hidden_size, width);
  if (mlp_bias) {
    AddVector(layer.weights, "mlp.gate_proj.bias", Role::kMlp, width);
    AddVector(layer.weights, "mlp.up_proj.bias", Role::kMlp, width);
    AddVector(layer.weights, "mlp.down_proj.bias", Role::kMlp, shape.hidden_size);
  }
  int64_t layers = fields.Need("num_hidden_layers", kMaxLayers);
  for (int64_t depth = 0; depth < layers; ++depth) AddLayer(shape, layer);
}

}  // namespace

void Llama(Fields& fields, ModelShape& shape) {
  GroupedQuery attention = ReadGroupedQuery(fields);
  attention.window = fields.Or("sliding_window", 0, kMaxRows);
  attention.qkv_bias = attention.output_bias = fields.Flag("attention_bias", false);
  Decoder(fields, shape, attention, fields.Flag("mlp_bias", false));
}

void Qwen2(Fields& fields, ModelShape& shape) {
  GroupedQuery attention = ReadGroupedQuery(fields);
  attention.qkv_bias = true;
  Decoder(fields, shape, attention, false);
}

void Qwen3(Fields& fields, ModelShape& shape) {
  GroupedQuery attention = ReadGroupedQuery(fields);
  attention.qkv_bias = attention.output_bias = fields.Flag("attention_bias", false);
  attention.head_norms = true;
  Decoder(fields, shape, attention, false);
}

}  // namespace am::model

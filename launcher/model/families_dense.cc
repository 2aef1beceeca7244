// Dense decoders. Structure and module names: Hugging Face transformers, modeling_llama.py,
// modeling_mistral.py, modeling_qwen2.py, modeling_qwen3.py, modeling_gemma2.py,
// modeling_gemma3.py, modeling_phi3.py.
#include <functional>

#include "launcher/model/families.h"
#include "launcher/model/parts.h"

namespace am::model {
namespace {

using Slides = std::function<bool(int64_t depth)>;

// The window of each layer: by layer_types, else as the family has it.
std::vector<int64_t> Windows(Fields& fields, int64_t layers, int64_t window, const Slides& slides) {
  std::vector<std::string> types = ReadTypes(fields, layers);
  std::vector<int64_t> windows;
  for (int64_t depth = 0; depth < layers; ++depth) {
    bool here = types.empty() ? slides(depth) : types[depth] == "sliding_attention";
    windows.push_back(here ? window : 0);
  }
  return windows;
}

std::string Kind(int64_t window) {
  return window > 0 ? "sliding attention + mlp" : "attention + mlp";
}

// Layers of attention and a gated MLP.
void Decoder(Fields& fields, ModelShape& shape, GroupedQuery attention, const Slides& slides) {
  AddEnds(fields, shape);
  int64_t width = fields.Need("intermediate_size");
  bool mlp_bias = fields.Flag("mlp_bias", false);
  int64_t layers = fields.Need("num_hidden_layers", kMaxLayers);
  for (int64_t window : Windows(fields, layers, attention.window, slides)) {
    Layer layer = Block(Kind(window), shape.hidden_size);
    attention.window = window;
    AddAttention(layer, attention);
    AddGatedMlp(layer, "mlp", shape.hidden_size, width);
    if (mlp_bias) {
      AddVector(layer.weights, "mlp.gate_proj.bias", Role::kMlp, width);
      AddVector(layer.weights, "mlp.up_proj.bias", Role::kMlp, width);
      AddVector(layer.weights, "mlp.down_proj.bias", Role::kMlp, shape.hidden_size);
    }
    AddLayer(shape, std::move(layer));
  }
}

bool Always(int64_t) { return true; }

// Norms before and after attention and feed-forward.
void GemmaDecoder(Fields& fields, ModelShape& shape, bool head_norms, int64_t full_every) {
  AddEnds(fields, shape);
  GroupedQuery attention = ReadGroupedQuery(fields);
  attention.qkv_bias = attention.output_bias = fields.Flag("attention_bias", false);
  attention.head_norms = head_norms;
  int64_t width = fields.Need("intermediate_size");
  int64_t layers = fields.Need("num_hidden_layers", kMaxLayers);
  int64_t window = fields.Or("sliding_window", 4096, kMaxRows);
  auto slides = [&](int64_t depth) { return full_every == 0 || (depth + 1) % full_every != 0; };
  for (int64_t here : Windows(fields, layers, window, slides)) {
    Layer layer = Block(Kind(here), shape.hidden_size);
    AddNorm(layer.weights, "pre_feedforward_layernorm", shape.hidden_size);
    AddNorm(layer.weights, "post_feedforward_layernorm", shape.hidden_size);
    attention.window = here;
    AddAttention(layer, attention);
    AddGatedMlp(layer, "mlp", shape.hidden_size, width);
    AddLayer(shape, std::move(layer));
  }
}

// Qwen2 and Qwen3 files carry a window that use_sliding_window switches on, for layers from
// max_window_layers.
void QwenDecoder(Fields& fields, ModelShape& shape, GroupedQuery attention) {
  bool slides = fields.Flag("use_sliding_window", false);
  attention.window = slides ? fields.Or("sliding_window", 0, kMaxRows) : 0;
  int64_t from = fields.Or("max_window_layers", 28);
  Decoder(fields, shape, attention, [from](int64_t depth) { return depth >= from; });
}

}  // namespace

void Llama(Fields& fields, ModelShape& shape) {
  GroupedQuery attention = ReadGroupedQuery(fields);
  attention.window = fields.Or("sliding_window", 0, kMaxRows);  // Mistral's
  attention.qkv_bias = attention.output_bias = fields.Flag("attention_bias", false);
  Decoder(fields, shape, attention, Always);
}

void Qwen2(Fields& fields, ModelShape& shape) {
  GroupedQuery attention = ReadGroupedQuery(fields);
  attention.qkv_bias = true;
  QwenDecoder(fields, shape, attention);
}

void Qwen3(Fields& fields, ModelShape& shape) {
  GroupedQuery attention = ReadGroupedQuery(fields);
  attention.qkv_bias = attention.output_bias = fields.Flag("attention_bias", false);
  attention.head_norms = true;
  QwenDecoder(fields, shape, attention);
}

void Gemma2(Fields& fields, ModelShape& shape) { GemmaDecoder(fields, shape, false, 2); }

void Gemma3(Fields& fields, ModelShape& shape) {
  GemmaDecoder(fields, shape, true, fields.Or("sliding_window_pattern", 6));
}

// One matrix for queries, keys and values, one for gate and up.
void Phi3(Fields& fields, ModelShape& shape) {
  AddEnds(fields, shape);
  GroupedQuery attention = ReadGroupedQuery(fields);
  attention.window = fields.Or("sliding_window", 0, kMaxRows);
  attention.fused = true;
  int64_t width = fields.Need("intermediate_size");
  Layer layer = Block(Kind(attention.window), shape.hidden_size);
  AddAttention(layer, attention);
  AddMatrix(layer.weights, "mlp.gate_up_proj", Role::kMlp, shape.hidden_size, 2 * width);
  AddMatrix(layer.weights, "mlp.down_proj", Role::kMlp, width, shape.hidden_size);
  int64_t layers = fields.Need("num_hidden_layers", kMaxLayers);
  for (int64_t depth = 0; depth < layers; ++depth) AddLayer(shape, layer);
}

}  // namespace am::model

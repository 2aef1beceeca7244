// Vision towers of the multimodal families. Structure and module names: Hugging Face transformers,
// modeling_siglip.py and modeling_gemma3.py, modeling_qwen3_5.py (also Qwen4-Exp's),
// modeling_glm5_next.py. The towers of the other families are not known: their sizes are in no
// config.json.
#include <absl/strings/str_cat.h>

#include "launcher/model/families.h"
#include "launcher/model/parts.h"

namespace am::model {
namespace {

class Tower {
 public:
  explicit Tower(std::string kind) : layer_{.kind = std::move(kind)} {}
  void Linear(const std::string& name, int64_t in, int64_t out, bool bias) {
    Role role = name.find("mlp") != std::string::npos ? Role::kMlp : Role::kAttention;
    AddMatrix(layer_.weights, name, role, in, out);
    if (bias) AddVector(layer_.weights, name + ".bias", role, out);
  }
  void Convolution(const std::string& name, int64_t in, int64_t out, bool bias = true) {
    AddBare(layer_.weights, name, Role::kOther, in, out);
    if (bias) AddVector(layer_.weights, name + ".bias", Role::kOther, out);
  }
  void Norm(const std::string& name, int64_t width, bool bias) {
    AddNorm(layer_.weights, name, width);
    if (bias) AddVector(layer_.weights, name + ".bias", Role::kNorm, width);
  }
  void Table(const std::string& name, int64_t rows, int64_t width) {
    AddBare(layer_.weights, name, Role::kOther, width, rows);
    layer_.weights.back().uses = 0;
  }
  void Attends(int64_t heads, int64_t width) {
    int64_t head_dim = width / heads;
    layer_.attention = Attention{.heads = heads,
                                 .kv_heads = heads,
                                 .key_dim = head_dim,
                                 .value_dim = head_dim,
                                 .causal = false};
  }
  const Layer& layer() const { return layer_; }

 private:
  Layer layer_;
};

void Siglip(Fields& vision, ModelShape& shape) {
  int64_t width = vision.Need("hidden_size");
  int64_t inner = vision.Need("intermediate_size");
  int64_t patch = vision.Need("patch_size", kMaxSide);
  int64_t side = vision.Need("image_size") / patch;
  int64_t channels = vision.Or("num_channels", 3, kMaxSide);
  Tower ends("vision ends");
  ends.Convolution("embeddings.patch_embedding", channels * patch * patch, width);
  ends.Table("embeddings.position_embedding", side * side, width);
  ends.Norm("post_layernorm", width, true);
  // Gemma 3's connector.
  ends.Convolution("mm_input_projection_weight", width, shape.hidden_size, false);
  ends.Norm("mm_soft_emb_norm", width, false);
  shape.towers.push_back(ends.layer());
  Tower block("vision block");
  block.Norm("layer_norm1", width, true);
  for (const char* module : {"q_proj", "k_proj", "v_proj", "out_proj"}) {
    block.Linear(absl::StrCat("self_attn.", module), width, width, true);
  }
  block.Norm("layer_norm2", width, true);
  block.Linear("mlp.fc1", width, inner, true);
  block.Linear("mlp.fc2", inner, width, true);
  block.Attends(vision.Need("num_attention_heads"), width);
  int64_t depth = vision.Need("num_hidden_layers", kMaxLayers);
  shape.towers.insert(shape.towers.end(), static_cast<size_t>(depth), block.layer());
}

void QwenVision(Fields& vision, ModelShape& shape) {
  int64_t width = vision.Need("hidden_size");
  int64_t inner = vision.Need("intermediate_size");
  int64_t patch = vision.Need("patch_size", kMaxSide);
  int64_t merged = vision.Need("spatial_merge_size", kMaxSide);
  merged = merged * merged * width;
  Tower ends("vision ends");
  ends.Convolution("patch_embed.proj",
                   vision.Or("in_channels", 3, kMaxSide) *
                       vision.Or("temporal_patch_size", 2, kMaxSide) * patch * patch,
                   width);
  ends.Table("pos_embed", vision.Need("num_position_embeddings"), width);
  ends.Norm("merger.norm", width, true);
  ends.Linear("merger.linear_fc1", merged, merged, true);
  ends.Linear("merger.linear_fc2", merged, vision.Need("out_hidden_size"), true);
  shape.towers.push_back(ends.layer());
  Tower block("vision block");
  block.Norm("norm1", width, true);
  block.Norm("norm2", width, true);
  block.Linear("attn.qkv", width, 3 * width, true);
  block.Linear("attn.proj", width, width, true);
  block.Linear("mlp.linear_fc1", width, inner, true);
  block.Linear("mlp.linear_fc2", inner, width, true);
  block.Attends(vision.Need("num_heads"), width);
  int64_t depth = vision.Need("depth", kMaxLayers);
  shape.towers.insert(shape.towers.end(), static_cast<size_t>(depth), block.layer());
}

void GlmVision(Fields& vision, ModelShape& shape) {
  int64_t width = vision.Need("hidden_size");
  int64_t inner = vision.Need("intermediate_size");
  int64_t heads = vision.Need("num_heads");
  int64_t patch = vision.Need("patch_size", kMaxSide);
  int64_t merge = vision.Need("spatial_merge_size", kMaxSide);
  int64_t out = vision.Need("out_hidden_size");
  int64_t context = vision.Need("projection_intermediate_size");
  bool bias = vision.Flag("attention_bias", true);
  Tower ends("vision ends");
  ends.Convolution("patch_embed.proj",
                   vision.Or("in_channels", 3, kMaxSide) *
                       vision.Or("temporal_patch_size", 2, kMaxSide) * patch * patch,
                   width);
  ends.Norm("post_layernorm", width, false);
  ends.Convolution("downsample", width * merge * merge, out);
  ends.Linear("merger.proj", out, out, false);
  ends.Norm("merger.post_projection_norm", out, true);
  ends.Linear("merger.gate_proj", out, context, false);
  ends.Linear("merger.up_proj", out, context, false);
  ends.Linear("merger.down_proj", context, out, false);
  shape.towers.push_back(ends.layer());
  Tower block("vision block");
  block.Norm("norm1", width, false);
  block.Norm("norm2", width, false);
  block.Linear("attn.qkv", width, 3 * width, bias);
  block.Linear("attn.proj", width, width, bias);
  block.Norm("attn.q_norm", width / heads, false);
  block.Norm("attn.k_norm", width / heads, false);
  block.Linear("mlp.gate_proj", width, inner, bias);
  block.Linear("mlp.up_proj", width, inner, bias);
  block.Linear("mlp.down_proj", inner, width, bias);
  block.Attends(heads, width);
  int64_t depth = vision.Need("depth", kMaxLayers);
  shape.towers.insert(shape.towers.end(), static_cast<size_t>(depth), block.layer());
}

}  // namespace

void ReadTowers(Fields& config, ModelShape& shape) {
  void (*read)(Fields&, ModelShape&) = nullptr;
  if (shape.family == "gemma3") read = Siglip;
  if (shape.family == "qwen3_5" || shape.family == "qwen4_exp") read = QwenVision;
  if (shape.family == "glm5_next") read = GlmVision;
  if (!read || !config.Has("vision_config")) return;
  Fields vision = config.In("vision_config");
  read(vision, shape);
}

}  // namespace am::model

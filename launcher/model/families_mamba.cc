// Decoders that mix state spaces with attention and experts, one of them a layer. Structure and
// module names: Hugging Face transformers, modeling_nemotron_h.py.
#include <absl/strings/str_cat.h>

#include <algorithm>

#include "launcher/model/families.h"
#include "launcher/model/parts.h"

namespace am::model {
namespace {

Layer Mixer(std::string kind, int64_t hidden) {
  Layer layer{.kind = std::move(kind)};
  AddNorm(layer.weights, "norm", hidden);
  return layer;
}

void AddBias(Layer& layer, const char* module, Role role, int64_t out) {
  AddVector(layer.weights, absl::StrCat("mixer.", module, ".bias"), role, out);
}

// Mamba-2 (arXiv 2405.21060).
Layer Mamba(Fields& fields, int64_t hidden) {
  Layer layer = Mixer("mamba", hidden);
  int64_t heads = fields.Need("mamba_num_heads");
  int64_t head_dim = fields.Need("mamba_head_dim");
  int64_t state = fields.Need("ssm_state_size");
  int64_t groups = fields.Need({"n_groups", "mamba_n_groups"});
  int64_t conv = fields.Need({"conv_kernel", "mamba_d_conv"});
  int64_t inner = heads * head_dim;
  int64_t channels = inner + 2 * groups * state;
  AddMatrix(layer.weights, "mixer.in_proj", Role::kMixer, hidden, inner + channels + heads);
  AddBare(layer.weights, "mixer.conv1d", Role::kMixer, conv, channels);
  if (fields.Flag("use_conv_bias", true)) AddBias(layer, "conv1d", Role::kMixer, channels);
  for (const char* name : {"mixer.dt_bias", "mixer.A_log", "mixer.D"}) {
    AddVector(layer.weights, name, Role::kMixer, heads);
  }
  AddNorm(layer.weights, "mixer.norm", inner);
  AddMatrix(layer.weights, "mixer.out_proj", Role::kMixer, inner, hidden);
  if (fields.Flag("use_bias", false)) {
    AddBias(layer, "in_proj", Role::kMixer, inner + channels + heads);
    AddBias(layer, "out_proj", Role::kMixer, hidden);
  }
  layer.scan = Scan{.kind = Scan::Kind::kMamba2,
                    .heads = heads,
                    .key_dim = state,
                    .value_dim = head_dim,
                    .groups = groups,
                    .conv_width = conv,
                    .conv_channels = channels,
                    .chunk = fields.Or("chunk_size", 128)};
  return layer;
}

Layer AttentionMixer(Fields& fields, int64_t hidden) {
  Layer layer = Mixer("attention", hidden);
  GroupedQuery read = ReadGroupedQuery(fields);
  read.prefix = "mixer";
  AddAttention(layer, read);
  return layer;
}

// Plain experts, which may work in a narrower latent space; one shared expert of its own width.
Layer ExpertsMixer(Fields& fields, ModelShape& shape) {
  Experts experts{.hidden = shape.hidden_size,
                  .width = fields.Need("moe_intermediate_size"),
                  .count = fields.Need("n_routed_experts"),
                  .per_token = fields.Need("num_experts_per_tok"),
                  .shared_width = fields.Need("moe_shared_expert_intermediate_size"),
                  .gated = false,
                  .latent = fields.Or("moe_latent_size", 0),
                  .prefix = "mixer"};
  NoteExperts(shape, experts);
  Layer layer = Mixer(absl::StrCat(experts.count, " experts"), shape.hidden_size);
  AddExperts(layer, experts);
  if (fields.Flag("mlp_bias", false)) {
    AddBias(layer, "shared_experts.up_proj", Role::kSharedExpert, experts.shared_width);
    AddBias(layer, "shared_experts.down_proj", Role::kSharedExpert, shape.hidden_size);
    if (experts.latent > 0) {
      AddBias(layer, "fc1_latent_proj", Role::kSharedExpert, experts.latent);
      AddBias(layer, "fc2_latent_proj", Role::kSharedExpert, shape.hidden_size);
    }
  }
  return layer;
}

Layer MlpMixer(Fields& fields, int64_t hidden) {
  Layer layer = Mixer("mlp", hidden);
  int64_t width = fields.Need("intermediate_size");
  AddPlainMlp(layer, "mixer", hidden, width);
  if (fields.Flag("mlp_bias", false)) {
    AddBias(layer, "up_proj", Role::kMlp, width);
    AddBias(layer, "down_proj", Role::kMlp, hidden);
  }
  return layer;
}

Layer MakeMixer(Fields& fields, ModelShape& shape, std::string_view key, const std::string& type) {
  if (type == "M" || type == "mamba" || type == "linear_attention") {
    return Mamba(fields, shape.hidden_size);
  }
  if (type == "*" || type == "attention" || type == "full_attention") {
    return AttentionMixer(fields, shape.hidden_size);
  }
  if (type == "E" || type == "moe") return ExpertsMixer(fields, shape);
  if (type == "-" || type == "mlp") return MlpMixer(fields, shape.hidden_size);
  fields.Fail(key, absl::StrCat(type, " is none of M (mamba), * (attention), E (moe), - (mlp)"));
  return Layer{};
}

std::vector<std::string> Letters(const std::string& pattern) {
  std::vector<std::string> letters;
  for (char letter : pattern) letters.emplace_back(1, letter);
  return letters;
}

}  // namespace

// The pattern says how many layers there are; num_hidden_layers cuts it.
void NemotronH(Fields& fields, ModelShape& shape) {
  AddEnds(fields, shape);
  shape.embedding.front().name = "embeddings";
  shape.head.front().name = "norm_f.weight";
  const char* key = "hybrid_override_pattern";
  std::vector<std::string> types = Letters(fields.Word(key));
  for (const char* list : {"layers_block_type", "layer_types"}) {
    if (!types.empty() || !fields.Has(list)) continue;
    key = list;
    types = fields.Words(list);
  }
  int64_t named = static_cast<int64_t>(types.size());
  int64_t layers = fields.Or("num_hidden_layers", named, kMaxLayers);
  if (named == 0) fields.Fail(key, "is missing");
  if (layers > named || layers > kMaxLayers) {
    fields.Fail(key, absl::StrCat("names ", named, " layers, num_hidden_layers ", layers));
    layers = 0;
  }
  types.resize(static_cast<size_t>(layers));
  for (const std::string& type : types) AddLayer(shape, MakeMixer(fields, shape, key, type));

  shape.mtp_depths = fields.Or("num_nextn_predict_layers", 0);
  if (shape.mtp_depths == 0) return;
  key = "mtp_hybrid_override_pattern";
  shape.mtp = Layer{.kind = "prediction"};
  for (const std::string& type : Letters(fields.Word(key, "*E"))) {
    Layer part = MakeMixer(fields, shape, key, type);
    shape.mtp->weights.insert(shape.mtp->weights.end(), part.weights.begin(), part.weights.end());
    if (part.attention) shape.mtp->attention = part.attention;
    if (part.scan) shape.mtp->scan = part.scan;
  }
  AddPredictionEnds(*shape.mtp, shape.hidden_size);
}

}  // namespace am::model

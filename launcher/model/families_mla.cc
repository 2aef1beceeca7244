// Decoders with multi-head latent attention. Structure and module names: Hugging Face transformers,
// modeling_deepseek_v3.py (also Kimi-K2 and Moonlight). The router's correction bias is a buffer,
// no parameter.
#include <absl/strings/str_cat.h>

#include "launcher/model/families.h"
#include "launcher/model/parts.h"

namespace am::model {
namespace {

// The first layers are dense, the others routed experts beside shared ones of the same width.
Experts ReadExperts(Fields& fields, ModelShape& shape) {
  Experts experts{.hidden = shape.hidden_size,
                  .width = fields.Need("moe_intermediate_size"),
                  .count = fields.Need("n_routed_experts"),
                  .per_token = fields.Need("num_experts_per_tok")};
  experts.shared_width = fields.Or("n_shared_experts", 0) * experts.width;
  shape.num_experts = experts.count;
  shape.experts_per_token = experts.per_token;
  return experts;
}

}  // namespace

void DeepseekV3(Fields& fields, ModelShape& shape) {
  AddEnds(fields, shape);
  Latent latent = ReadLatent(fields);
  Experts experts = ReadExperts(fields, shape);
  int64_t dense = fields.Or("first_k_dense_replace", 0);
  int64_t layers = fields.Need("num_hidden_layers", kMaxLayers);
  for (int64_t depth = 0; depth < layers; ++depth) {
    bool sparse = depth >= dense;
    Layer layer = Block(sparse ? absl::StrCat("latent attention + ", experts.count, " experts")
                               : "latent attention + mlp",
                        shape.hidden_size);
    AddLatentAttention(layer, latent);
    if (sparse) {
      AddExperts(layer, experts);
    } else {
      AddGatedMlp(layer, "mlp", shape.hidden_size, fields.Need("intermediate_size"));
    }
    AddLayer(shape, std::move(layer));
  }
}

}  // namespace am::model

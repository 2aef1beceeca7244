#include "launcher/plan/image_sample.h"

#include <absl/strings/str_cat.h>

namespace am::plan {
namespace {

constexpr char kLoader[] = "data.dataloader";
constexpr char kResolution[] = "data.dataloader.base_resolution";
// Where the image pipelines of Hugging Face diffusers cut a text: their max_sequence_length. The
// texts themselves are in the cache, and no recipe has a key for their length.
constexpr int64_t kTextTokens = 512;
// The side that a model's count of tokens is for.
constexpr int64_t kSide = 1024;
constexpr int64_t kMaxSide = 1 << 16;
constexpr int64_t kMaxTokens = 1 << 20;

}  // namespace

bool TrainsOnCache(const recipe::Recipe& recipe) {
  return recipe.kind() == "diffusion" && recipe.Has(kLoader);
}

std::optional<int64_t> ImageSequenceLength(const recipe::Recipe& recipe,
                                           const nlohmann::json& config, std::string& reason) {
  if (!TrainsOnCache(recipe) || recipe.Part(kLoader) != "text_to_image") return std::nullopt;
  const recipe::Value* value = recipe.Find(kResolution);
  nlohmann::json sides = value ? recipe::ToJson(*value) : nlohmann::json();
  if (!sides.is_array() || sides.size() != 2 || !config.is_object()) return std::nullopt;
  for (const nlohmann::json& side : sides) {
    if (!side.is_number_integer() || side < 1 || side > kMaxSide) return std::nullopt;
  }
  auto known = config.find("image_tokens_1024x1024");
  if (known == config.end() || !known->is_number_integer() || *known > kMaxTokens) {
    return std::nullopt;
  }
  auto height = sides[0].get<int64_t>(), width = sides[1].get<int64_t>();
  int64_t picture = known->get<int64_t>() * height * width / (kSide * kSide);
  if (picture <= 0) return std::nullopt;
  reason = absl::StrCat("sequence length ", picture + kTextTokens, " = ", picture,
                        " tokens of a picture of ", height, " · ", width, " (", kResolution, ") + ",
                        kTextTokens,
                        " of its text, assumed: where pipelines cut it; the cache has the lengths");
  return picture + kTextTokens;
}

std::shared_ptr<const model::ModelShape> DenoiserOf(const model::ModelShape& shape) {
  auto denoiser = std::make_shared<model::ModelShape>(shape);
  denoiser->vocab_size = 0;  // no logits
  for (model::Weight& weight : denoiser->head) {
    if (weight.role == model::Role::kHead) weight.uses = 0;
  }
  for (model::Layer& layer : denoiser->kinds) {
    if (layer.attention) layer.attention->causal = false;
  }
  return denoiser;
}

}  // namespace am::plan

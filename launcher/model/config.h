// ModelConfig: what a Hugging Face config.json says that a plan needs; and the list of what the
// engine trains.
//
// Found by FindModelConfig of known.h: a local directory, the snapshot of a hub id in the Hugging
// Face cache, or the known facts.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace am::model {

struct ModelConfig {
  std::vector<std::string> architectures;
  std::string model_type;
  int64_t hidden_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;  // = num_attention_heads where the file is silent
  int64_t intermediate_size = 0;
  int64_t vocab_size = 0;
  bool tie_word_embeddings = false;
  int64_t num_experts = 0;  // 0: dense
  bool uses_sliding_window = false;
  nlohmann::json json;  // the whole file, overrides of the recipe laid over
};

// The `architectures` that am-rank trains today.
inline constexpr std::string_view kTrainableArchitectures[] = {
    "LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM"};

// Empty where the engine trains it, else why not, e.g. "architecture Phi3ForCausalLM is not one of
// …".
std::string WhyNotTrainable(const ModelConfig& config);

absl::StatusOr<ModelConfig> ParseModelConfig(const nlohmann::json& json);
// The key of a multimodal file under which its language model's numbers lie, or "".
std::string TextPartKey(const nlohmann::json& file);
// Reads <directory>/config.json and lays `overrides` over it.
absl::StatusOr<ModelConfig> ReadModelConfig(
    const std::string& directory, const nlohmann::json& overrides = nlohmann::json::object());

// Where the Hugging Face cache lies: HF_HUB_CACHE, HF_HOME/hub, XDG_CACHE_HOME/huggingface/hub,
// HOME/.cache/huggingface/hub.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
std::string HuggingFaceCache(const Environment& environment);

// `org/name` or `name`; what begins like a path is one.
bool CouldBeHubId(std::string_view name);

enum class HubKind { kModel, kDataset };
// The snapshot of a hub id in the cache: the one of `main`, or the only one. NotFound says where it
// looked.
absl::StatusOr<std::string> FindHubDirectory(HubKind kind, const std::string& name,
                                             const std::string& cache);

}  // namespace am::model

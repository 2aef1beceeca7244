#include "launcher/model/known.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>

#include "launcher/model/known_files.h"

namespace am::model {
namespace {

using nlohmann::json;

// Equal in every number that shapes them, or patched where they are known to differ. Base and
// instruct models often differ in the context that their file names, so that is patched, or unset
// where it is not known for certain.
constexpr std::string_view kOtherContext = R"({"max_position_embeddings": null})";
constexpr std::string_view k32k = R"({"max_position_embeddings": 32768})";
constexpr std::string_view k128k = R"({"max_position_embeddings": 131072})";
constexpr std::string_view k256k = R"({"max_position_embeddings": 262144})";
// Mistral 7B before v0.3: a smaller vocabulary; v0.1 with a window.
constexpr std::string_view kMistral1 = R"({"vocab_size": 32000, "sliding_window": 4096})";
constexpr std::string_view kMistral2 = R"({"vocab_size": 32000})";
// GLM-5 and 5.1 pick keys anew in every layer.
constexpr std::string_view kGlm5 =
    R"({"index_topk_freq": 1, "index_skip_topk_offset": 2, "max_position_embeddings": null})";
constexpr std::string_view kMimoFlash =
    R"({"architectures": ["MiMoV2FlashForCausalLM"], "model_type": "mimo_v2_flash",
        "attention_projection_layout": null, "vision_config": null,
        "max_position_embeddings": null})";

constexpr Alias kAliases[] = {
    {"HuggingFaceTB/SmolLM2-1.7B-Instruct", "HuggingFaceTB/SmolLM2-1.7B"},
    {"HuggingFaceTB/SmolLM2-135M-Instruct", "HuggingFaceTB/SmolLM2-135M"},
    {"HuggingFaceTB/SmolLM2-360M-Instruct", "HuggingFaceTB/SmolLM2-360M"},
    {"Qwen/QwQ-32B", "Qwen/Qwen2.5-32B-Instruct", kOtherContext},
    {"Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-0.5B"},
    {"Qwen/Qwen2.5-1.5B-Instruct", "Qwen/Qwen2.5-1.5B", k32k},
    {"Qwen/Qwen2.5-32B", "Qwen/Qwen2.5-32B-Instruct", k128k},
    {"Qwen/Qwen2.5-3B-Instruct", "Qwen/Qwen2.5-3B"},
    {"Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-7B", k32k},
    {"Qwen/Qwen3-0.6B-Base", "Qwen/Qwen3-0.6B", k32k},
    {"Qwen/Qwen3-1.7B-Base", "Qwen/Qwen3-1.7B", k32k},
    {"Qwen/Qwen3-235B-A22B-Instruct-2507", "Qwen/Qwen3-235B-A22B", k256k},
    {"Qwen/Qwen3-235B-A22B-Thinking-2507", "Qwen/Qwen3-235B-A22B", k256k},
    {"Qwen/Qwen3-30B-A3B-Base", "Qwen/Qwen3-30B-A3B", k32k},
    {"Qwen/Qwen3-30B-A3B-Instruct-2507", "Qwen/Qwen3-30B-A3B", k256k},
    {"Qwen/Qwen3-30B-A3B-Thinking-2507", "Qwen/Qwen3-30B-A3B", k256k},
    {"Qwen/Qwen3-4B-Base", "Qwen/Qwen3-4B", k32k},
    {"Qwen/Qwen3-4B-Instruct-2507", "Qwen/Qwen3-4B", k256k},
    {"Qwen/Qwen3-4B-Thinking-2507", "Qwen/Qwen3-4B", k256k},
    {"Qwen/Qwen3-8B-Base", "Qwen/Qwen3-8B", k32k},
    {"Qwen/Qwen3-Next-80B-A3B-Thinking", "Qwen/Qwen3-Next-80B-A3B-Instruct"},
    {"XiaomiMiMo/MiMo-V2-Flash", "XiaomiMiMo/MiMo-V2.6-Flash-RL", kMimoFlash},
    {"deepseek-ai/DeepSeek-R1", "deepseek-ai/DeepSeek-V3"},
    {"deepseek-ai/DeepSeek-R1-0528", "deepseek-ai/DeepSeek-V3"},
    {"deepseek-ai/DeepSeek-V3-0324", "deepseek-ai/DeepSeek-V3"},
    {"deepseek-ai/DeepSeek-V3-Base", "deepseek-ai/DeepSeek-V3"},
    {"deepseek-ai/DeepSeek-V3.1", "deepseek-ai/DeepSeek-V3"},
    {"deepseek-ai/DeepSeek-V3.1-Base", "deepseek-ai/DeepSeek-V3"},
    {"deepseek-ai/DeepSeek-V4-Flash-Base", "deepseek-ai/DeepSeek-V4-Flash"},
    {"google/gemma-2-2b-it", "google/gemma-2-2b"},
    {"google/gemma-2-9b-it", "google/gemma-2-9b"},
    {"google/gemma-3-1b-it", "google/gemma-3-1b-pt"},
    {"google/gemma-3-270m-it", "google/gemma-3-270m"},
    {"google/gemma-3-4b-it", "google/gemma-3-4b-pt"},
    {"meta-llama/Llama-3.1-70B-Instruct", "meta-llama/Llama-3.1-70B"},
    {"meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B"},
    {"meta-llama/Llama-3.2-1B-Instruct", "meta-llama/Llama-3.2-1B"},
    {"meta-llama/Llama-3.2-3B-Instruct", "meta-llama/Llama-3.2-3B"},
    {"meta-llama/Meta-Llama-3-70B", "meta-llama/Llama-3.1-70B",
     R"({"max_position_embeddings": 8192})"},
    {"meta-llama/Meta-Llama-3-70B-Instruct", "meta-llama/Llama-3.1-70B",
     R"({"max_position_embeddings": 8192})"},
    {"meta-llama/Meta-Llama-3-8B-Instruct", "meta-llama/Meta-Llama-3-8B"},
    {"meta-llama/Meta-Llama-3.1-70B", "meta-llama/Llama-3.1-70B"},
    {"meta-llama/Meta-Llama-3.1-70B-Instruct", "meta-llama/Llama-3.1-70B"},
    {"meta-llama/Meta-Llama-3.1-8B", "meta-llama/Llama-3.1-8B"},
    {"meta-llama/Meta-Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B"},
    {"mistralai/Mistral-7B-Instruct-v0.1", "mistralai/Mistral-7B-v0.3", kMistral1},
    {"mistralai/Mistral-7B-Instruct-v0.2", "mistralai/Mistral-7B-v0.3", kMistral2},
    {"mistralai/Mistral-7B-Instruct-v0.3", "mistralai/Mistral-7B-v0.3"},
    {"mistralai/Mistral-7B-v0.1", "mistralai/Mistral-7B-v0.3", kMistral1},
    {"mistralai/Mixtral-8x7B-Instruct-v0.1", "mistralai/Mixtral-8x7B-v0.1"},
    {"moonshotai/Kimi-K2-Instruct", "moonshotai/Kimi-K2-Base"},
    {"moonshotai/Kimi-K2-Instruct-0905", "moonshotai/Kimi-K2-Base", k256k},
    {"moonshotai/Kimi-Linear-48B-A3B-Base", "moonshotai/Kimi-Linear-48B-A3B-Instruct"},
    {"moonshotai/Moonlight-16B-A3B-Instruct", "moonshotai/Moonlight-16B-A3B"},
    {"nvidia/Llama-3.1-Nemotron-Nano-8B-v1", "meta-llama/Llama-3.1-8B"},
    {"zai-org/GLM-4.5-Air-Base", "zai-org/GLM-4.5-Air"},
    {"zai-org/GLM-5", "zai-org/GLM-5.3", kGlm5},
    {"zai-org/GLM-5.1", "zai-org/GLM-5.3", kGlm5},
    {"zai-org/GLM-5.2", "zai-org/GLM-5.3", kOtherContext},
};

std::optional<json> ReadKnown(std::string_view hub_id) {
  for (const KnownFile& file : KnownFiles()) {
    if (file.hub_id == hub_id) return json::parse(file.json);
  }
  for (const Alias& alias : kAliases) {
    if (alias.name != hub_id) continue;
    std::optional<json> config = ReadKnown(alias.of);
    if (config) config->merge_patch(json::parse(alias.patch));
    return config;
  }
  return std::nullopt;
}

std::string FactsOf(const std::string& name) {
  for (const Alias& alias : kAliases) {
    if (alias.name == name) {
      return absl::StrCat("the known facts of ", std::string(alias.of),
                          ", which is of equal shape");
    }
  }
  return absl::StrCat("the known facts of ", name);
}

// Overrides of a multimodal model's numbers are meant for its text part, where they live.
void LayOver(json& config, const json& overrides) {
  if (!overrides.is_object()) return;
  std::string part = TextPartKey(config);
  json* text = part.empty() ? nullptr : &config[part];
  json outer = json::object(), inner = json::object();
  for (const auto& [key, value] : overrides.items()) {
    bool inside = text && text->contains(key);
    if (inside) inner[key] = value;
    if (!inside || config.contains(key)) outer[key] = value;
  }
  if (text) text->merge_patch(inner);
  config.merge_patch(outer);  // last: it may take the text part away
}

}  // namespace

const json* KnownConfig(std::string_view hub_id) {
  static std::mutex mutex;
  static std::map<std::string, std::optional<json>, std::less<>> parsed;
  std::lock_guard<std::mutex> lock(mutex);
  auto found = parsed.find(hub_id);
  if (found == parsed.end()) {
    std::optional<json> config = ReadKnown(hub_id);
    if (!config) return nullptr;  // not remembered: there is no end of unknown names
    found = parsed.emplace(hub_id, std::move(config)).first;
  }
  return &*found->second;
}

std::vector<std::string> KnownModels() {
  std::vector<std::string> names;
  for (const KnownFile& file : KnownFiles()) names.emplace_back(file.hub_id);
  std::sort(names.begin(), names.end());
  return names;
}

const std::vector<Alias>& KnownAliases() {
  static const std::vector<Alias> aliases(std::begin(kAliases), std::end(kAliases));
  return aliases;
}

absl::StatusOr<FoundConfig> FindModelConfig(const std::string& name, const json& overrides,
                                            const Environment& environment) {
  auto from_directory = [&](const std::string& directory) -> absl::StatusOr<FoundConfig> {
    absl::StatusOr<ModelConfig> bare = ReadModelConfig(directory);
    if (!bare.ok()) return bare.status();
    std::string source = (std::filesystem::path(directory) / "config.json").string();
    json whole = std::move(bare->json);
    LayOver(whole, overrides);
    absl::StatusOr<ModelConfig> config = ParseModelConfig(whole);
    if (!config.ok()) return config.status();
    return FoundConfig{.config = *std::move(config), .source = std::move(source)};
  };
  std::error_code error;
  if (std::filesystem::is_directory(name, error)) return from_directory(name);
  std::string cache = HuggingFaceCache(environment);
  absl::StatusOr<std::string> cached = FindHubDirectory(HubKind::kModel, name, cache);
  // A snapshot without config.json holds a tokenizer alone: the facts may know more.
  if (cached.ok() && std::filesystem::exists(*cached + "/config.json", error)) {
    return from_directory(*cached);
  }
  if (const json* known = KnownConfig(name)) {
    json whole = *known;
    LayOver(whole, overrides);
    absl::StatusOr<ModelConfig> config = ParseModelConfig(whole);
    if (!config.ok()) return config.status();
    return FoundConfig{.config = *std::move(config), .source = FactsOf(name), .from_facts = true};
  }
  return absl::NotFoundError(absl::StrCat(
      name, " is no local directory, not in the cache ", cache,
      " and not among the known models, so its layers, parameters, memory and step time are not "
      "known; download its config.json or name a directory that has it"));
}

}  // namespace am::model

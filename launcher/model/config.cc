#include "launcher/model/config.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "common/file.h"

namespace am::model {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr size_t kMaxConfigBytes = 16 << 20;

int64_t IntOr(const json& config, const char* key, int64_t otherwise) {
  auto found = config.find(key);
  return found != config.end() && found->is_number_integer() ? found->get<int64_t>() : otherwise;
}

bool BoolOr(const json& config, const char* key, bool otherwise) {
  auto found = config.find(key);
  return found != config.end() && found->is_boolean() ? found->get<bool>() : otherwise;
}

}  // namespace

std::string WhyNotTrainable(const ModelConfig& config) {
  std::string known, named;
  for (std::string_view name : kTrainableArchitectures) {
    absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(name));
  }
  for (const std::string& name : config.architectures) {
    absl::StrAppend(&named, named.empty() ? "" : ", ", name);
    if (std::find(std::begin(kTrainableArchitectures), std::end(kTrainableArchitectures), name) !=
        std::end(kTrainableArchitectures)) {
      if (config.uses_sliding_window) {
        return absl::StrCat(name, " with a sliding window is not trainable yet");
      }
      return "";
    }
  }
  if (named.empty())
    return absl::StrCat("config.json names no architecture; trainable are ", known);
  return absl::StrCat("architecture ", named, " is not trainable yet; trainable are ", known);
}

std::string TextPartKey(const json& file) {
  for (const char* key : {"text_config", "llm_config"}) {
    auto part = file.find(key);
    if (part != file.end() && part->is_object()) return key;
  }
  return "";
}

absl::StatusOr<ModelConfig> ParseModelConfig(const json& file) {
  if (!file.is_object()) return absl::InvalidArgumentError("is no JSON object");
  std::string part = TextPartKey(file);
  const json& text = part.empty() ? file : file[part];
  ModelConfig config;
  config.json = file;
  if (auto names = file.find("architectures"); names != file.end() && names->is_array()) {
    for (const json& name : *names) {
      if (name.is_string()) config.architectures.push_back(name.get<std::string>());
    }
  }
  if (auto type = file.find("model_type"); type != file.end() && type->is_string()) {
    config.model_type = type->get<std::string>();
  }
  config.hidden_size = IntOr(text, "hidden_size", 0);
  config.num_hidden_layers = IntOr(text, "num_hidden_layers", 0);
  config.num_attention_heads = IntOr(text, "num_attention_heads", 0);
  config.num_key_value_heads = IntOr(text, "num_key_value_heads", config.num_attention_heads);
  config.intermediate_size = IntOr(text, "intermediate_size", 0);
  config.vocab_size = IntOr(text, "vocab_size", 0);
  config.tie_word_embeddings =
      BoolOr(file, "tie_word_embeddings", BoolOr(text, "tie_word_embeddings", false));
  for (const char* key : {"num_experts", "n_routed_experts", "num_local_experts"}) {
    config.num_experts = std::max(config.num_experts, IntOr(text, key, 0));
  }
  // Qwen2 files carry a window that use_sliding_window switches off; Mistral's counts where it is
  // not null.
  bool window = IntOr(text, "sliding_window", 0) > 0;
  config.uses_sliding_window =
      window && BoolOr(text, "use_sliding_window", config.model_type != "qwen2");
  return config;
}

absl::StatusOr<ModelConfig> ReadModelConfig(const std::string& directory, const json& overrides) {
  std::string path = (fs::path(directory) / "config.json").string();
  std::ifstream file(path, std::ios::binary);
  std::error_code error;
  if (!file || !fs::is_regular_file(path, error)) {
    return absl::NotFoundError(absl::StrCat(
        directory, " holds no config.json; it must be a Hugging Face model directory"));
  }
  if (fs::file_size(path, error) > kMaxConfigBytes) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": larger than any config.json"));
  }
  std::ostringstream text;
  text << file.rdbuf();
  json parsed = json::parse(text.str(), nullptr, false);
  if (parsed.is_discarded()) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is no JSON; is the file complete?"));
  }
  if (overrides.is_object() && parsed.is_object()) parsed.merge_patch(overrides);
  absl::StatusOr<ModelConfig> config = ParseModelConfig(parsed);
  if (!config.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": ", std::string(config.status().message())));
  }
  return config;
}

bool CouldBeHubId(std::string_view name) {
  if (name.empty() || name.front() == '/' || name.front() == '.' || name.front() == '~') {
    return false;
  }
  return std::count(name.begin(), name.end(), '/') <= 1 && name.back() != '/';
}

std::string HuggingFaceCache(const Environment& environment) {
  if (auto cache = environment("HF_HUB_CACHE")) return *cache;
  if (auto home = environment("HF_HOME")) return *home + "/hub";
  if (auto cache = environment("XDG_CACHE_HOME")) return *cache + "/huggingface/hub";
  return environment("HOME").value_or("") + "/.cache/huggingface/hub";
}

absl::StatusOr<std::string> FindHubDirectory(HubKind kind, const std::string& name,
                                             const std::string& cache) {
  const char* prefix = kind == HubKind::kModel ? "models--" : "datasets--";
  fs::path repository =
      fs::path(cache) / absl::StrCat(prefix, absl::StrReplaceAll(name, {{"/", "--"}}));
  std::error_code error;
  // refs/main names the snapshot that the hub's main branch pointed to.
  std::ifstream ref(repository / "refs" / "main");
  std::string revision;
  if (ref && std::getline(ref, revision) && revision.find('/') == std::string::npos) {
    fs::path snapshot = repository / "snapshots" / revision;
    if (!revision.empty() && IsDirectory(snapshot)) return snapshot.string();
  }
  std::vector<fs::path> snapshots;
  for (fs::directory_iterator entry(repository / "snapshots", error), end; !error && entry != end;
       entry.increment(error)) {
    if (IsDirectory(entry->path())) snapshots.push_back(entry->path());
  }
  if (snapshots.size() == 1) return snapshots.front().string();
  return absl::NotFoundError(
      absl::StrCat(name, " is neither a local path nor in the cache ", cache));
}

}  // namespace am::model

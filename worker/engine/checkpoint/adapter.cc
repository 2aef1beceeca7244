#include "worker/engine/checkpoint/adapter.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "common/error.h"
#include "worker/engine/checkpoint/hf_export.h"
#include "worker/engine/checkpoint/weights.h"

namespace am::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kWeightsFile[] = "adapter_model.safetensors";
constexpr char kConfigFile[] = "adapter_config.json";
constexpr std::string_view kPrefix = "base_model.model.";

// 32, not 32.0: what peft itself writes.
json Number(double value) {
  if (std::nearbyint(value) == value && std::abs(value) < 1e15) return static_cast<int64_t>(value);
  return value;
}

json AdapterConfig(const std::vector<AdapterModule>& modules, const PeftSpec& peft,
                   const std::string& base_model_name) {
  std::vector<std::string> targets;
  for (const AdapterModule& module : modules) targets.push_back(module.module);
  std::sort(targets.begin(), targets.end());
  return {{"alpha_pattern", json::object()},
          {"auto_mapping", nullptr},
          {"base_model_name_or_path", base_model_name},
          {"bias", "none"},
          {"fan_in_fan_out", false},
          {"inference_mode", true},
          {"init_lora_weights", true},
          {"lora_alpha", Number(peft.alpha)},
          {"lora_dropout", peft.dropout},
          {"modules_to_save", nullptr},
          {"peft_type", "LORA"},
          {"r", peft.dim},
          {"rank_pattern", json::object()},
          {"target_modules", targets},
          {"task_type", "CAUSAL_LM"},
          {"use_dora", false},
          {"use_rslora", false}};
}

// What the recipe said and adapter_config.json has no key for.
json RecipePeft(const PeftSpec& peft) {
  return {{"dim", peft.dim},
          {"alpha", Number(peft.alpha)},
          {"dropout", peft.dropout},
          {"dropout_position", peft.dropout_position},
          {"exclude_modules", peft.exclude_modules},
          {"lora_A_init", peft.lora_A_init},
          {"lora_dtype", peft.lora_dtype ? json(*peft.lora_dtype) : json()},
          {"match_all_linear", peft.match_all_linear},
          {"target_modules", peft.target_modules},
          {"use_dora", false}};
}

json ReadConfig(const std::string& dir) {
  const std::string path = (fs::path(dir) / kConfigFile).string();
  std::error_code ignored;
  if (!fs::is_directory(dir, ignored))
    throw UserError(dir + ": there is no such adapter directory");
  if (!fs::exists(path, ignored))
    throw UserError(dir + ": is no PEFT adapter: it has no " + kConfigFile);
  json config = json::parse(ReadTextFile(path), nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) throw UserError(path + ": is no JSON object");
  return config;
}

bool IsSet(const json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return false;
  if (found->is_boolean()) return found->get<bool>();
  return !found->empty();
}

double NumberAt(const json& config, const char* key, double fallback, const std::string& path) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return fallback;
  if (!found->is_number())
    throw UserError(path + ": " + key + ": " + found->dump() + " is no number");
  return found->get<double>();
}

void RefuseOtherKinds(const json& config, const std::string& path) {
  const json type = config.value("peft_type", json());
  if (type != "LORA")
    throw UserError(path + ": peft_type: " + type.dump() + " is not supported; only \"LORA\" is");
  for (const char* key :
       {"use_dora", "use_qalora", "modules_to_save", "rank_pattern", "alpha_pattern",
        "target_parameters", "layer_replication", "trainable_token_indices",
        "alora_invocation_tokens", "lora_bias", "fan_in_fan_out"}) {
    if (IsSet(config, key))
      throw UserError(path + ": " + key + ": " + config[key].dump() + " is not supported");
  }
  const json bias = config.value("bias", json("none"));
  if (bias != "none")
    throw UserError(path + ": bias: " + bias.dump() + " is not supported; only \"none\" is");
}

// base_model.model.<module>.lora_A.weight, or with the adapter's name before .weight, as peft keeps
// it in memory.
struct Key {
  std::string module;
  bool is_a = false;
};
std::optional<Key> ParseKey(std::string_view name) {
  if (name.substr(0, kPrefix.size()) != kPrefix) return std::nullopt;
  name.remove_prefix(kPrefix.size());
  for (const bool is_a : {true, false}) {
    const std::string_view part = is_a ? ".lora_A." : ".lora_B.";
    const size_t at = name.rfind(part);
    if (at == std::string_view::npos || at == 0) continue;
    const std::string_view rest = name.substr(at + part.size());
    if (rest == "weight" || rest == "default.weight")
      return Key{std::string(name.substr(0, at)), is_a};
  }
  return std::nullopt;
}

void CheckModule(const AdapterModule& module, int64_t r, const std::string& path) {
  const std::string where = path + ": " + module.module + ": ";
  if (!module.lora_a.defined()) throw UserError(where + "has lora_B but no lora_A");
  if (!module.lora_b.defined()) throw UserError(where + "has lora_A but no lora_B");
  if (module.lora_a.dim() != 2 || module.lora_b.dim() != 2)
    throw UserError(where + "lora_A and lora_B must be matrices");
  if (module.lora_a.size(0) != r || module.lora_b.size(1) != r) {
    throw UserError(where + "lora_A has " + std::to_string(module.lora_a.size(0)) +
                    " rows and lora_B " + std::to_string(module.lora_b.size(1)) +
                    " columns, but r in " + kConfigFile + " is " + std::to_string(r));
  }
}

}  // namespace

std::vector<ManifestFile> ExportAdapter(const std::vector<AdapterModule>& modules,
                                        const PeftSpec& peft, const std::string& base_model_name,
                                        const std::string& source_dir, const std::string& out_dir) {
  std::vector<Chunk> chunks;
  for (const AdapterModule& module : modules) {
    const std::string name = std::string(kPrefix) + module.module;
    chunks.push_back({name + ".lora_A.weight", module.lora_a.sizes().vec(), 0, module.lora_a});
    chunks.push_back({name + ".lora_B.weight", module.lora_b.sizes().vec(), 0, module.lora_b});
  }
  MakeDirectories(out_dir);
  std::vector<ManifestFile> files;
  const auto path = [&](const std::string& name) { return (fs::path(out_dir) / name).string(); };
  const auto add = [&](const std::string& name, const FileDigest& digest) {
    files.push_back({name, digest.bytes, digest.xxh3_128});
  };
  const auto add_json = [&](const std::string& name, const json& content) {
    add(name, WriteFileDurably(path(name), content.dump(2) + "\n"));
  };
  add(kWeightsFile, WriteSafetensors(path(kWeightsFile), chunks, {}));
  add_json(kConfigFile, AdapterConfig(modules, peft, base_model_name));
  add_json("automodel_peft_config.json", RecipePeft(peft));
  if (!source_dir.empty()) {
    const std::vector<ManifestFile> tokenizer = CopyTokenizer(source_dir, out_dir);
    files.insert(files.end(), tokenizer.begin(), tokenizer.end());
  }
  SyncDirectory(out_dir);
  return files;
}

Adapter ReadAdapter(const std::string& dir) {
  const json config = ReadConfig(dir);
  const std::string config_path = (fs::path(dir) / kConfigFile).string();
  RefuseOtherKinds(config, config_path);

  Adapter adapter;
  if (config.contains("base_model_name_or_path") && config["base_model_name_or_path"].is_string()) {
    adapter.base_model_name = config["base_model_name_or_path"].get<std::string>();
  }
  const double r = NumberAt(config, "r", 8, config_path);
  adapter.alpha = NumberAt(config, "lora_alpha", 8, config_path);
  adapter.dropout = NumberAt(config, "lora_dropout", 0, config_path);
  if (!(r >= 1 && r <= 1 << 20) || std::nearbyint(r) != r) {
    throw UserError(config_path + ": r: " + config.value("r", json()).dump() +
                    " is no rank; it must be a whole number from 1 on");
  }
  if (!std::isfinite(adapter.alpha)) throw UserError(config_path + ": lora_alpha is not finite");
  adapter.r = static_cast<int64_t>(r);
  adapter.scaling = adapter.alpha / (IsSet(config, "use_rslora") ? std::sqrt(r) : r);

  const std::string path = (fs::path(dir) / kWeightsFile).string();
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    const bool pickled = fs::exists(fs::path(dir) / "adapter_model.bin", ignored);
    throw UserError(
        dir + ": has no " + kWeightsFile +
        (pickled ? "; convert adapter_model.bin once with peft: PeftModel.from_pretrained(base, '" +
                       dir + "').save_pretrained('" + dir + "-safetensors')"
                 : ""));
  }
  const std::shared_ptr<SafetensorsFile> file = SafetensorsFile::Open(path);
  std::map<std::string, AdapterModule> modules;
  for (const auto& [name, info] : file->tensors()) {
    const std::optional<Key> key = ParseKey(name);
    if (!key) {
      throw UserError(path + ": tensor " + QuotedName(name) +
                      " is no LoRA weight of a linear layer "
                      "(base_model.model.<module>.lora_A.weight or lora_B.weight)");
    }
    AdapterModule& module = modules[key->module];
    module.module = key->module;
    at::Tensor& place = key->is_a ? module.lora_a : module.lora_b;
    if (place.defined()) throw UserError(path + ": " + key->module + ": is there twice");
    place = file->View(name);
  }
  if (modules.empty()) throw UserError(path + ": has no tensors");
  for (auto& [name, module] : modules) {
    CheckModule(module, adapter.r, path);
    adapter.modules.push_back(std::move(module));
  }
  return adapter;
}

}  // namespace am::engine

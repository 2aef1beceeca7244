#include "worker/engine/checkpoint/hf_export.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "common/error.h"

namespace am::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr char kHead[] = "lm_head.weight";

constexpr std::string_view kTokenizerFiles[] = {"tokenizer.json",
                                                "tokenizer_config.json",
                                                "special_tokens_map.json",
                                                "added_tokens.json",
                                                "vocab.json",
                                                "vocab.txt",
                                                "merges.txt",
                                                "tokenizer.model",
                                                "spiece.model",
                                                "sentencepiece.bpe.model",
                                                "tekken.json",
                                                "chat_template.jinja",
                                                "chat_template.json"};
constexpr std::string_view kModelFiles[] = {"generation_config.json", "preprocessor_config.json",
                                            "processor_config.json"};

bool IsPlainFloat(at::ScalarType dtype) {
  return dtype == at::kFloat || dtype == at::kBFloat16 || dtype == at::kHalf ||
         dtype == at::kDouble;
}

int64_t Bytes(const StoredTensor& tensor) {
  int64_t count = 0;
  CountElements(tensor.info.shape, &count);
  return count * static_cast<int64_t>(c10::elementSize(tensor.info.dtype));
}

ordered_json ReadConfig(const std::string& source_dir) {
  const std::string path = (fs::path(source_dir) / "config.json").string();
  std::error_code ignored;
  if (!fs::exists(path, ignored))
    throw UserError(source_dir + ": has no config.json; is it a Hugging Face model directory?");
  ordered_json config =
      ordered_json::parse(ReadTextFile(path), nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) throw UserError(path + ": is no JSON object");
  return config;
}

// The dtype that most bytes have: what a loader should make of the model.
at::ScalarType MainDtype(const std::vector<StoredTensor>& tensors) {
  std::map<at::ScalarType, int64_t> bytes;
  for (const StoredTensor& tensor : tensors) {
    if (IsPlainFloat(tensor.info.dtype)) bytes[tensor.info.dtype] += Bytes(tensor);
  }
  const auto most = std::max_element(
      bytes.begin(), bytes.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == bytes.end() ? at::kFloat : most->first;
}

// transformers 5 writes `dtype`, earlier ones `torch_dtype`; models with parts repeat it in their
// sub-configs.
void SetDtype(ordered_json* config, const std::string& dtype, bool top) {
  bool found = false;
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (!config->contains(key)) continue;
    (*config)[key] = dtype;
    found = true;
  }
  if (top && !found) (*config)["torch_dtype"] = dtype;  // the one that every version reads
  for (auto& [key, value] : config->items()) {
    if (value.is_object() && key.size() > 7 && key.substr(key.size() - 7) == "_config")
      SetDtype(&value, dtype, false);
  }
}

bool IsTied(const ordered_json& config, const HfExportOptions& options) {
  return options.tied_head ||
         (config.contains("tie_word_embeddings") && config["tie_word_embeddings"] == true);
}

// In name order, each file filled up to the limit; a tensor larger than that has a file of its own.
std::vector<std::vector<StoredTensor>> Split(std::vector<StoredTensor> tensors,
                                             int64_t max_file_bytes) {
  std::sort(tensors.begin(), tensors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  std::vector<std::vector<StoredTensor>> files(1);
  int64_t filled = 0;
  for (StoredTensor& tensor : tensors) {
    const int64_t bytes = Bytes(tensor);
    if (filled > 0 && filled + bytes > max_file_bytes) {
      files.emplace_back();
      filled = 0;
    }
    filled += bytes;
    files.back().push_back(std::move(tensor));
  }
  return files;
}

class Writer {
 public:
  explicit Writer(std::string out_dir) : out_dir_(std::move(out_dir)) { MakeDirectories(out_dir_); }

  void Add(const std::string& name, const FileDigest& digest) {
    files_.push_back({name, digest.bytes, digest.xxh3_128});
  }
  void Text(const std::string& name, const std::string& text) {
    Add(name, WriteFileDurably(Path(name), text));
  }
  void CopyIfThere(const std::string& source_dir, std::string_view name) {
    const fs::path from = fs::path(source_dir) / name;
    std::error_code ignored;
    if (!fs::is_regular_file(from, ignored)) return;
    if (fs::path(name).has_parent_path())
      MakeDirectories(fs::path(Path(std::string(name))).parent_path().string());
    Add(std::string(name), CopyFileDurably(from.string(), Path(std::string(name))));
  }
  // Files of `folder` (relative to the source) with one of these extensions.
  void CopyByExtension(const std::string& source_dir, const std::string& folder,
                       const std::set<std::string>& extensions) {
    std::error_code ignored;
    std::vector<std::string> names;
    for (const auto& item : fs::directory_iterator(fs::path(source_dir) / folder, ignored)) {
      if (extensions.count(item.path().extension().string()) > 0) {
        names.push_back((fs::path(folder) / item.path().filename()).string());
      }
    }
    std::sort(names.begin(), names.end());
    for (const std::string& name : names) CopyIfThere(source_dir, name);
  }
  std::string Path(const std::string& name) const { return (fs::path(out_dir_) / name).string(); }
  std::vector<ManifestFile> Finish() {
    SyncDirectory(out_dir_);
    return std::move(files_);
  }

 private:
  std::string out_dir_;
  std::vector<ManifestFile> files_;
};

void WriteWeights(std::vector<StoredTensor> tensors, int64_t max_file_bytes, Writer* writer) {
  const std::map<std::string, std::string> metadata = {{"format", "pt"}};
  int64_t total = 0;
  for (const StoredTensor& tensor : tensors) total += Bytes(tensor);
  std::vector<std::vector<StoredTensor>> files = Split(std::move(tensors), max_file_bytes);
  if (files.size() == 1) {
    const std::string name = "model.safetensors";
    writer->Add(name, WriteSafetensorsStreaming(writer->Path(name), std::move(files[0]), metadata));
    return;
  }
  nlohmann::json weight_map = nlohmann::json::object();
  for (size_t i = 0; i < files.size(); ++i) {
    char name[64];
    std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", i + 1, files.size());
    for (const StoredTensor& tensor : files[i]) weight_map[tensor.name] = name;
    writer->Add(name, WriteSafetensorsStreaming(writer->Path(name), std::move(files[i]), metadata));
  }
  const nlohmann::json index = {{"metadata", {{"total_size", total}}}, {"weight_map", weight_map}};
  writer->Text("model.safetensors.index.json", index.dump(2) + "\n");
}

void AddTokenizer(const std::string& source_dir, Writer* writer) {
  for (const std::string_view name : kTokenizerFiles) writer->CopyIfThere(source_dir, name);
  writer->CopyByExtension(source_dir, "", {".tiktoken"});
  writer->CopyByExtension(source_dir, "additional_chat_templates", {".jinja"});
}

}  // namespace

std::vector<StoredTensor> TensorsOf(const WeightReader& weights) {
  std::vector<StoredTensor> tensors;
  for (const std::string& name : weights.Names()) {
    tensors.push_back({name, weights.Info(name), [weights, name] { return weights.Read(name); }});
  }
  return tensors;
}

std::vector<ManifestFile> ExportHf(std::vector<StoredTensor> tensors, const std::string& out_dir,
                                   const HfExportOptions& options) {
  ordered_json config = ReadConfig(options.source_dir);
  for (const auto& [key, value] : options.config_overrides.items()) config[key] = value;
  config.erase("quantization_config");
  if (IsTied(config, options))
    std::erase_if(tensors, [](const StoredTensor& tensor) { return tensor.name == kHead; });
  for (StoredTensor& tensor : tensors) {
    if (options.dtype && IsPlainFloat(tensor.info.dtype)) tensor.info.dtype = *options.dtype;
  }
  SetDtype(&config, ConfigName(options.dtype ? *options.dtype : MainDtype(tensors)), true);

  Writer writer(out_dir);
  WriteWeights(std::move(tensors), options.max_file_bytes, &writer);
  writer.Text("config.json", config.dump(2) + "\n");
  for (const std::string_view name : kModelFiles) writer.CopyIfThere(options.source_dir, name);
  AddTokenizer(options.source_dir, &writer);
  writer.CopyByExtension(options.source_dir, "", {".py"});
  return writer.Finish();
}

std::vector<ManifestFile> CopyTokenizer(const std::string& source_dir, const std::string& out_dir) {
  Writer writer(out_dir);
  AddTokenizer(source_dir, &writer);
  return writer.Finish();
}

std::vector<ManifestFile> Prefixed(std::vector<ManifestFile> files, const std::string& prefix) {
  for (ManifestFile& file : files) file.path = prefix + file.path;
  return files;
}

}  // namespace am::engine

// HfExport: model/consolidated, a Hugging Face model directory that from_pretrained loads with
// nothing missing or unexpected.
//
// Run by the leader after every rank wrote its shards. Tensors pass one at a time, so memory is
// that of the largest one.
//   save.Add(ExportHf(TensorsOf(WeightReader::Open(save.Path("model"))),
//   save.Path("model/consolidated"), options)) after Prefixed(files, "model/consolidated/")
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "worker/engine/checkpoint/checkpointer.h"
#include "worker/engine/checkpoint/weights.h"

namespace am::engine {

struct HfExportOptions {
  std::string source_dir;  // the model directory that was trained: config, tokenizer, custom code
  std::optional<at::ScalarType> dtype;  // of all float tensors; nothing: as they are
  nlohmann::json config_overrides =
      nlohmann::json::object();  // laid over config.json, as in training
  bool tied_head =
      false;  // lm_head.weight is left out; also where config.json says tie_word_embeddings
  int64_t max_file_bytes = int64_t{5} << 30;  // above it: several files and an index
};

// All tensors of a reader, which they keep alive.
std::vector<StoredTensor> TensorsOf(const WeightReader& weights);

// Returns what it wrote, paths relative to `out_dir`. Throws am::Error: kIo for the disk, kUser for
// an unusable source_dir.
std::vector<ManifestFile> ExportHf(std::vector<StoredTensor> tensors, const std::string& out_dir,
                                   const HfExportOptions& options);

// The tokenizer's files and the chat template of `source_dir`, byte for byte.
std::vector<ManifestFile> CopyTokenizer(const std::string& source_dir, const std::string& out_dir);

std::vector<ManifestFile> Prefixed(std::vector<ManifestFile> files, const std::string& prefix);

}  // namespace am::engine

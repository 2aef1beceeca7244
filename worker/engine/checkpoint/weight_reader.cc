#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "common/error.h"
#include "worker/engine/checkpoint/safetensors_header.h"
#include "worker/engine/checkpoint/weights.h"

namespace am::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr char kSingleFile[] = "model.safetensors";
constexpr char kIndexFile[] = "model.safetensors.index.json";

// Elements [begin, begin + count) of a tensor, as one file stores them.
struct Piece {
  std::shared_ptr<SafetensorsFile> file;
  int64_t begin = 0;
  int64_t count = 0;
};

struct Entry {
  TensorInfo info;            // of the global tensor
  std::vector<Piece> pieces;  // sorted, without gap or overlap
};

std::string Shown(const std::vector<int64_t>& shape) { return json(shape).dump(); }

// What to say of a directory that has weights, but none that we read.
Error NoSafetensors(const std::string& dir) {
  std::error_code ignored;
  for (const auto& item : fs::directory_iterator(dir, ignored)) {
    const std::string name = item.path().filename().string();
    const std::string extension = item.path().extension().string();
    if (extension == ".bin" || extension == ".pt" || extension == ".pth") {
      return UserError(dir + ": has " + name +
                       " but no safetensors file. Convert it once with transformers:\n  python -c "
                       "\"from transformers import "
                       "AutoModelForCausalLM as M; M.from_pretrained('" +
                       dir + "', dtype='auto').save_pretrained('" + dir +
                       "-safetensors')\"\nand copy the tokenizer files");
    }
    if (extension == ".gguf") {
      return UserError(
          dir + ": has " + name +
          " but no safetensors file; a Hugging Face directory with safetensors is needed");
    }
  }
  return UserError(dir + ": has no weights: neither " + kSingleFile + " nor " + kIndexFile +
                   " nor any other .safetensors file");
}

// The files of an index, each with the tensors that the index promises to be in it.
std::map<std::string, std::set<std::string>> ReadIndex(const std::string& path) {
  json index;
  try {
    index = json::parse(ReadTextFile(path));
  } catch (const json::exception& e) {
    throw UserError(path + ": is no valid JSON: " + e.what());
  }
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object() ||
      index["weight_map"].empty()) {
    throw UserError(path + ": has no weight_map");
  }
  std::map<std::string, std::set<std::string>> files;
  for (const auto& [tensor, file] : index["weight_map"].items()) {
    if (!file.is_string())
      throw UserError(path + ": weight_map: " + QuotedName(tensor) + " has no file name");
    const std::string name = file.get<std::string>();
    if (name.empty() || name.find('/') != std::string::npos || name == "." || name == "..") {
      throw UserError(path + ": weight_map: " + QuotedName(tensor) + " is said to be in " +
                      QuotedName(name) + ", which is no file beside the index");
    }
    files[name].insert(tensor);
  }
  return files;
}

std::vector<std::string> SafetensorsIn(const std::string& dir) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(dir, error)) {
    if (item.path().extension() == ".safetensors") names.push_back(item.path().filename().string());
  }
  if (error) throw UserError(dir + ": cannot be read: " + error.message());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

struct WeightReader::Impl {
  std::string dir;
  std::map<std::string, Entry> entries;

  void AddFile(const std::string& path, const std::set<std::string>* only) {
    const std::shared_ptr<SafetensorsFile> file = SafetensorsFile::Open(path);
    if (only != nullptr) {
      for (const std::string& name : *only) {
        if (file->tensors().count(name) == 0) {
          throw UserError(path + ": has no tensor " + QuotedName(name) + ", although " +
                          kIndexFile + " says so");
        }
      }
    }
    const ChunkPlaces places = file->places();
    for (const auto& [name, info] : file->tensors()) {
      if (only != nullptr && only->count(name) == 0) continue;
      const auto place = places.find(name);
      Piece piece{file, 0, 0};
      CountElements(info.shape, &piece.count);
      TensorInfo global = info;
      if (place != places.end()) {
        piece.begin = place->second.begin;
        global.shape = place->second.global_shape;
      }
      const auto [at, is_new] = entries.try_emplace(name, Entry{global, {}});
      Entry& entry = at->second;
      if (!is_new && (entry.info.shape != global.shape || entry.info.dtype != global.dtype)) {
        throw UserError(path + ": tensor " + QuotedName(name) + " is " +
                        c10::toString(global.dtype) + " " + Shown(global.shape) + ", but " +
                        c10::toString(entry.info.dtype) + " " + Shown(entry.info.shape) + " in " +
                        entry.pieces.front().file->path());
      }
      entry.pieces.push_back(std::move(piece));
    }
  }

  // Puts the pieces of each tensor in order; they must make it up exactly.
  void CheckPieces() {
    for (auto& [name, entry] : entries) {
      std::sort(entry.pieces.begin(), entry.pieces.end(), [](const Piece& a, const Piece& b) {
        return std::tie(a.begin, a.count) < std::tie(b.begin, b.count);
      });
      int64_t total = 0, covered = 0;
      CountElements(entry.info.shape, &total);
      if (total == 0) continue;
      std::erase_if(entry.pieces, [](const Piece& piece) { return piece.count == 0; });
      const Piece* previous = nullptr;
      for (const Piece& piece : entry.pieces) {
        if (piece.begin < covered) {
          throw UserError(dir + ": tensor " + QuotedName(name) + " is stored twice, in " +
                          previous->file->path() + " and in " + piece.file->path());
        }
        if (piece.begin > covered) break;
        covered += piece.count;
        previous = &piece;
      }
      if (covered != total) {
        throw UserError(dir + ": tensor " + QuotedName(name) + " is incomplete: of its " +
                        std::to_string(total) + " elements those from " + std::to_string(covered) +
                        " on are in no file; a shard is missing");
      }
    }
  }

  const Entry& At(const std::string& name) const {
    const auto found = entries.find(name);
    if (found == entries.end()) throw UserError(dir + ": has no tensor " + QuotedName(name));
    return found->second;
  }
};

WeightReader WeightReader::Open(const std::string& dir) {
  WeightReader reader;
  reader.impl_ = std::make_shared<Impl>();
  Impl& impl = *reader.impl_;
  impl.dir = dir;

  std::error_code ignored;
  const fs::path root(dir);
  if (!fs::exists(root, ignored)) throw UserError(dir + ": does not exist");
  if (!fs::is_directory(root, ignored)) {
    impl.AddFile(dir, nullptr);
  } else if (fs::exists(root / kSingleFile, ignored)) {
    impl.AddFile((root / kSingleFile).string(), nullptr);
  } else if (fs::exists(root / kIndexFile, ignored)) {
    const auto files = ReadIndex((root / kIndexFile).string());
    // All that is missing is said at once, before gigabytes are read.
    for (const auto& [file, tensors] : files) {
      if (!fs::exists(root / file, ignored)) {
        throw UserError((root / kIndexFile).string() + ": names " + file + " (" +
                        std::to_string(tensors.size()) + " tensors, e.g. " + *tensors.begin() +
                        "), which is not there");
      }
    }
    for (const auto& [file, tensors] : files) impl.AddFile((root / file).string(), &tensors);
  } else {
    const std::vector<std::string> names = SafetensorsIn(dir);
    if (names.empty()) throw NoSafetensors(dir);
    for (const std::string& name : names) impl.AddFile((root / name).string(), nullptr);
  }
  impl.CheckPieces();
  return reader;
}

std::vector<std::string> WeightReader::Names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : impl_->entries) names.push_back(name);
  return names;
}

bool WeightReader::Has(const std::string& name) const { return impl_->entries.count(name) > 0; }

TensorInfo WeightReader::Info(const std::string& name) const { return impl_->At(name).info; }

at::Tensor WeightReader::Read(const std::string& name) const {
  const Entry& entry = impl_->At(name);
  int64_t total = 0;
  CountElements(entry.info.shape, &total);
  return ReadFlat(name, 0, total).view(entry.info.shape);
}

at::Tensor WeightReader::ReadRows(const std::string& name, int64_t begin, int64_t end) const {
  const Entry& entry = impl_->At(name);
  std::vector<int64_t> shape = entry.info.shape;
  if (shape.empty() || begin < 0 || begin > end || end > shape[0]) {
    throw InternalError("rows " + std::to_string(begin) + " to " + std::to_string(end) + " of " +
                        name + ", which has " + Shown(shape));
  }
  shape[0] = end - begin;
  int64_t row = 0;
  CountElements({entry.info.shape.begin() + 1, entry.info.shape.end()}, &row);
  return ReadFlat(name, begin * row, end * row).view(shape);
}

at::Tensor WeightReader::ReadFlat(const std::string& name, int64_t begin, int64_t end) const {
  const Entry& entry = impl_->At(name);
  int64_t total = 0;
  CountElements(entry.info.shape, &total);
  if (begin < 0 || begin > end || end > total) {
    throw InternalError("elements " + std::to_string(begin) + " to " + std::to_string(end) +
                        " of " + name + ", which has " + std::to_string(total));
  }
  const auto flat = [&](const Piece& piece) { return piece.file->View(name).view({piece.count}); };
  for (const Piece& piece : entry.pieces) {
    if (piece.begin <= begin && end <= piece.begin + piece.count) {
      return flat(piece).slice(0, begin - piece.begin, end - piece.begin);
    }
  }
  at::Tensor whole = at::empty({end - begin}, at::TensorOptions().dtype(entry.info.dtype));
  const auto element = static_cast<int64_t>(c10::elementSize(entry.info.dtype));
  for (const Piece& piece : entry.pieces) {
    const int64_t from = std::max(begin, piece.begin),
                  to = std::min(end, piece.begin + piece.count);
    if (from >= to) continue;
    const at::Tensor data = flat(piece);
    std::memcpy(static_cast<char*>(whole.data_ptr()) + (from - begin) * element,
                static_cast<const char*>(data.const_data_ptr()) + (from - piece.begin) * element,
                static_cast<size_t>((to - from) * element));
  }
  return whole;
}

}  // namespace am::engine

// Safetensors and Hugging Face model directories: reading by mmap, writing.
//
// Format: github.com/huggingface/safetensors (8-byte little-endian header length, JSON header, data). Headers are hostile
// input: every offset, shape, dtype and length is checked against the file before it is used.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace am::engine {

struct TensorInfo {
  std::vector<int64_t> shape;
  at::ScalarType dtype = at::kFloat;
};

// One safetensors file, mapped. Tensors are views of the map and keep it alive; do not write to them.
class SafetensorsFile {
 public:
  static std::shared_ptr<SafetensorsFile> Open(const std::string& path);  // throws am::Error (kUser), naming file and fault
  const std::map<std::string, TensorInfo>& tensors() const;
  const std::map<std::string, std::string>& metadata() const;
  at::Tensor View(const std::string& name) const;  // zero-copy where aligned, else a copy

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// The weights of a model directory, whether one file, several with an index, or chunk shards of ours.
class WeightReader {
 public:
  static WeightReader Open(const std::string& dir);
  std::vector<std::string> Names() const;
  bool Has(const std::string& name) const;
  TensorInfo Info(const std::string& name) const;
  // Rows [begin, end) of dim 0 of the global tensor; the whole tensor by default. A view where one file holds it in one piece.
  at::Tensor Read(const std::string& name) const;
  at::Tensor ReadRows(const std::string& name, int64_t begin, int64_t end) const;
  // Elements [begin, end) of the flattened global tensor (FSDP shards are flat pieces).
  at::Tensor ReadFlat(const std::string& name, int64_t begin, int64_t end) const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// A piece of a global tensor that one rank stores: elements [flat_begin, flat_begin + data.numel()) of the flattened tensor.
struct Chunk {
  std::string name;
  std::vector<int64_t> global_shape;
  int64_t flat_begin = 0;
  at::Tensor data;  // contiguous, on the CPU
};

// Writes whole tensors (flat_begin 0, all elements) as an ordinary safetensors file, pieces as 1-D tensors with their place in
// the header's __metadata__ ("amctl_chunks": JSON {name: {"shape": [...], "begin": n}}). Fsynced. Throws am::Error (kIo).
void WriteSafetensors(const std::string& path, const std::vector<Chunk>& chunks,
                      const std::map<std::string, std::string>& metadata);

}  // namespace am::engine

// Safetensors and Hugging Face model directories: reading by mmap, writing.
//
// Format: github.com/huggingface/safetensors (8-byte little-endian header length, JSON header,
// data). Headers are hostile input: every offset, shape, dtype and length is checked against the
// file before it is used.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "worker/engine/checkpoint/file_ops.h"
#include "worker/engine/checkpoint/safetensors_header.h"

namespace am::engine {

struct TensorInfo {
  std::vector<int64_t> shape;
  at::ScalarType dtype = at::kFloat;
};

// Names of dtypes in safetensors ("BF16") and in recipes and configs ("bfloat16"). Nothing, or an
// empty name, where there is none.
std::optional<at::ScalarType> DtypeFromSafetensors(std::string_view name);
std::string SafetensorsName(at::ScalarType dtype);
std::optional<at::ScalarType> DtypeFromConfig(std::string_view name);
std::string ConfigName(at::ScalarType dtype);

// One safetensors file, mapped. Tensors are views of the map and keep it alive; do not write to
// them.
class SafetensorsFile {
 public:
  static std::shared_ptr<SafetensorsFile> Open(
      const std::string& path);  // throws am::Error (kUser), naming file and fault
  const std::map<std::string, TensorInfo>& tensors() const;
  const std::map<std::string, std::string>& metadata() const;
  at::Tensor View(const std::string& name) const;  // zero-copy where aligned, else a copy
  const ChunkPlaces& places() const;  // of those tensors that are pieces of larger ones
  const std::string& path() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// The weights of a model directory, whether one file, several with an index, or chunk shards of
// ours, written by any number of ranks: Open checks that the pieces of every tensor make it up
// without gap or overlap, the Read functions put them together. Any thread may read.
class WeightReader {
 public:
  // `dir` may also be a single safetensors file. Throws am::Error (kUser) that names file and
  // fault.
  static WeightReader Open(const std::string& dir);
  std::vector<std::string> Names() const;
  bool Has(const std::string& name) const;
  TensorInfo Info(const std::string& name) const;
  // Rows [begin, end) of dim 0 of the global tensor; the whole tensor by default. A view where one
  // file holds it in one piece.
  at::Tensor Read(const std::string& name) const;
  at::Tensor ReadRows(const std::string& name, int64_t begin, int64_t end) const;
  // Elements [begin, end) of the flattened global tensor (FSDP shards are flat pieces).
  at::Tensor ReadFlat(const std::string& name, int64_t begin, int64_t end) const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// A piece of a global tensor that one rank stores: elements [flat_begin, flat_begin + data.numel())
// of the flattened tensor.
struct Chunk {
  std::string name;
  std::vector<int64_t> global_shape;
  int64_t flat_begin = 0;
  at::Tensor data;  // contiguous, on the CPU
};

// Writes whole tensors (flat_begin 0, all elements) as an ordinary safetensors file, pieces as 1-D
// tensors with their place in the header's __metadata__ ("amctl_chunks": JSON {name: {"shape":
// [...], "begin": n}}). Fsynced. Throws am::Error (kIo). The digest is for CheckpointSave::Add,
// which spares the leader from reading the file again.
FileDigest WriteSafetensors(const std::string& path, const std::vector<Chunk>& chunks,
                            const std::map<std::string, std::string>& metadata);

// The same for whole tensors that need not fit memory together: `read` is called once for each,
// when its turn has come.
struct StoredTensor {
  std::string name;
  TensorInfo info;
  std::function<at::Tensor()>
      read;  // a CPU tensor of that shape; cast to info.dtype if it has another
};
FileDigest WriteSafetensorsStreaming(const std::string& path, std::vector<StoredTensor> tensors,
                                     const std::map<std::string, std::string>& metadata);

}  // namespace am::engine

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "common/error.h"
#include "worker/engine/checkpoint/file_ops.h"
#include "worker/engine/checkpoint/safetensors_header.h"
#include "worker/engine/checkpoint/weights.h"

namespace am::engine {
namespace {

using nlohmann::json;

int64_t Elements(const StoredTensor& tensor) {
  int64_t count = 0;
  if (!CountElements(tensor.info.shape, &count))
    throw InternalError("tensor " + tensor.name + " has an impossible shape");
  return count;
}

int64_t Bytes(const StoredTensor& tensor) {
  return Elements(tensor) * static_cast<int64_t>(c10::elementSize(tensor.info.dtype));
}

// Wide elements first: as the data section begins at a multiple of eight, every tensor is then
// aligned to its own elements.
void SortForAlignment(std::vector<StoredTensor>* tensors) {
  std::sort(tensors->begin(), tensors->end(), [](const StoredTensor& a, const StoredTensor& b) {
    const size_t a_size = c10::elementSize(a.info.dtype), b_size = c10::elementSize(b.info.dtype);
    return a_size != b_size ? a_size > b_size : a.name < b.name;
  });
}

std::string Header(const std::vector<StoredTensor>& tensors,
                   const std::map<std::string, std::string>& metadata) {
  json header = json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t begin = 0;
  for (const StoredTensor& tensor : tensors) {
    const std::string dtype = SafetensorsName(tensor.info.dtype);
    if (dtype.empty()) {
      throw InternalError("tensor " + tensor.name + ": safetensors has no dtype for " +
                          c10::toString(tensor.info.dtype));
    }
    if (tensor.name == "__metadata__" || header.contains(tensor.name)) {
      throw InternalError("tensor " + tensor.name + " would be stored twice in one file");
    }
    const int64_t end = begin + Bytes(tensor);
    header[tensor.name] = {
        {"dtype", dtype}, {"shape", tensor.info.shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  std::string prefix(8, '\0');
  for (int i = 0; i < 8; ++i) prefix[i] = static_cast<char>(length >> (8 * i) & 0xff);
  return prefix + text;
}

}  // namespace

FileDigest WriteSafetensorsStreaming(const std::string& path, std::vector<StoredTensor> tensors,
                                     const std::map<std::string, std::string>& metadata) {
  SortForAlignment(&tensors);
  const std::string header = Header(tensors, metadata);
  int64_t total_bytes = static_cast<int64_t>(header.size());
  for (const StoredTensor& tensor : tensors) total_bytes += Bytes(tensor);

  DurableFile file(path, total_bytes);
  file.Write(header);
  for (const StoredTensor& tensor : tensors) {
    at::Tensor data = tensor.read();
    if (!data.defined() || !data.device().is_cpu() || data.numel() != Elements(tensor)) {
      throw InternalError("tensor " + tensor.name + " is not what its entry in " + path + " says");
    }
    data = data.detach().to(tensor.info.dtype).contiguous();
    file.Write(data.const_data_ptr(), data.nbytes());
  }
  return file.Finish();
}

FileDigest WriteSafetensors(const std::string& path, const std::vector<Chunk>& chunks,
                            const std::map<std::string, std::string>& metadata) {
  std::vector<StoredTensor> tensors;
  json places = json::object();
  for (const Chunk& chunk : chunks) {
    int64_t global = 0;
    if (!CountElements(chunk.global_shape, &global) || chunk.flat_begin < 0 ||
        chunk.flat_begin + chunk.data.numel() > global) {
      throw InternalError("the piece of " + chunk.name + " lies outside of the tensor");
    }
    const bool whole = chunk.data.numel() == global;
    if (!whole) places[chunk.name] = {{"shape", chunk.global_shape}, {"begin", chunk.flat_begin}};
    const std::vector<int64_t> shape =
        whole ? chunk.global_shape : std::vector<int64_t>{chunk.data.numel()};
    tensors.push_back(
        {chunk.name, {shape, chunk.data.scalar_type()}, [data = chunk.data] { return data; }});
  }
  std::map<std::string, std::string> all = metadata;
  all.emplace("format", "pt");
  if (!places.empty()) all[kChunksKey] = places.dump();
  return WriteSafetensorsStreaming(path, std::move(tensors), all);
}

}  // namespace am::engine

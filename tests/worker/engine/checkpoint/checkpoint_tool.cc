// Drives this room from Python: tests/interop/test_checkpoint_formats.py compares what it leaves
// with Hugging Face's libraries.
//   checkpoint_tool export DIR OUT [--dtype D] [--ranks N] [--max-file-bytes N]   a model, through
//   the shards of N ranks checkpoint_tool adapter DIR OUT [--source DIR] an adapter, read and
//   written again checkpoint_tool dump DIR name, dtype, shape and bytes' hash of each tensor
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "common/error.h"
#include "worker/engine/checkpoint/adapter.h"
#include "worker/engine/checkpoint/hf_export.h"
#include "worker/engine/checkpoint/weights.h"

namespace am::engine {
namespace {

using Options = std::map<std::string, std::string>;

// Flat, equal pieces, as data-parallel ranks that shard their parameters store them.
void WriteShards(const WeightReader& weights, const std::string& dir, int64_t ranks) {
  MakeDirectories(dir);
  for (int64_t rank = 0; rank < ranks; ++rank) {
    std::vector<Chunk> chunks;
    for (const std::string& name : weights.Names()) {
      const std::vector<int64_t> shape = weights.Info(name).shape;
      int64_t count = 0;
      CountElements(shape, &count);
      const int64_t share = (count + ranks - 1) / ranks;
      const int64_t begin = std::min(count, rank * share);
      chunks.push_back(
          {name, shape, begin, weights.ReadFlat(name, begin, std::min(count, begin + share))});
    }
    char file[64];
    std::snprintf(file, sizeof file, "/shard-%05d.safetensors", static_cast<int>(rank + 1));
    WriteSafetensors(dir + file, chunks, {});
  }
}

void Export(const std::string& dir, const std::string& out, const Options& options) {
  WriteShards(WeightReader::Open(dir), out + "/shards", std::stoll(options.at("ranks")));
  HfExportOptions hf;
  hf.source_dir = dir;
  if (!options.at("dtype").empty()) hf.dtype = DtypeFromConfig(options.at("dtype")).value();
  if (!options.at("max-file-bytes").empty())
    hf.max_file_bytes = std::stoll(options.at("max-file-bytes"));
  ExportHf(TensorsOf(WeightReader::Open(out + "/shards")), out + "/consolidated", hf);
}

void CopyAdapter(const std::string& dir, const std::string& out, const Options& options) {
  const Adapter adapter = ReadAdapter(dir);
  PeftSpec peft;
  peft.dim = adapter.r;
  peft.alpha = adapter.alpha;
  peft.dropout = adapter.dropout;
  ExportAdapter(adapter.modules, peft, adapter.base_model_name, options.at("source"), out);
}

void Dump(const std::string& dir) {
  const WeightReader weights = WeightReader::Open(dir);
  for (const std::string& name : weights.Names()) {
    const TensorInfo info = weights.Info(name);
    const at::Tensor data = weights.Read(name);
    uint64_t sum =
        0;  // a simple sum that Python can repeat: every byte times its place, modulo 2^32
    const auto* bytes = static_cast<const unsigned char*>(data.const_data_ptr());
    for (size_t i = 0; i < data.nbytes(); ++i)
      sum = (sum + bytes[i] * (i % 65521 + 1)) & 0xffffffff;
    std::cout << nlohmann::json({{"name", name},
                                 {"dtype", SafetensorsName(info.dtype)},
                                 {"shape", info.shape},
                                 {"sum", sum}})
              << "\n";
  }
}

int Run(const std::vector<std::string>& arguments) {
  Options options = {{"dtype", ""}, {"ranks", "2"}, {"max-file-bytes", ""}, {"source", ""}};
  std::vector<std::string> words;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].rfind("--", 0) == 0 && i + 1 < arguments.size()) {
      options.at(arguments[i].substr(2)) = arguments[i + 1];
      ++i;
    } else {
      words.push_back(arguments[i]);
    }
  }
  if (words.size() == 3 && words[0] == "export") {
    Export(words[1], words[2], options);
  } else if (words.size() == 3 && words[0] == "adapter") {
    CopyAdapter(words[1], words[2], options);
  } else if (words.size() == 2 && words[0] == "dump") {
    Dump(words[1]);
  } else {
    std::cerr << "usage: checkpoint_tool export|adapter|dump DIR [OUT] [options]\n";
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace am::engine

int main(int argc, char** argv) {
  try {
    return am::engine::Run({argv + 1, argv + argc});
  } catch (const am::Error& e) {
    std::cerr << "checkpoint_tool: " << e.what() << "\n";
    return 1;
  }
}

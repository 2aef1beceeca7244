// am-logits: the model's answers as numbers, for comparing with other implementations.
// usage: am-logits MODEL_DIR [--adapter DIR] [--dtype float32|bfloat16]; JSON arrays of ids, a line
// each, on standard input; a JSON object a line on standard output: last_logits (of the last
// position), argmax and max (of every position).
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "common/error.h"
#include "common/exit_status.h"
#include "worker/engine/checkpoint/adapter.h"
#include "worker/engine/comm/communicator.h"
#include "worker/engine/model_loader.h"
#include "worker/engine/pack.h"

namespace am::engine {
namespace {

nlohmann::json Numbers(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.to(at::kDouble).contiguous();
  return std::vector<double>(flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel());
}

int Main(int argc, char** argv) {
  RankSpec spec;
  spec.model.torch_dtype = "float32";
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--adapter" && i + 1 < argc) {
      const Adapter adapter = ReadAdapter(argv[++i]);
      spec.peft.emplace();
      spec.peft->dim = adapter.r;
      spec.peft->alpha = adapter.scaling * static_cast<double>(adapter.r);
      spec.peft->adapter_path = argv[i];
      for (const AdapterModule& module : adapter.modules)
        spec.peft->target_modules.push_back(module.module);
    } else if (word == "--dtype" && i + 1 < argc) {
      spec.model.torch_dtype = argv[++i];
    } else if (spec.model.path.empty() && !word.starts_with("--")) {
      spec.model.path = word;
    } else {
      spec.model.path.clear();
      break;
    }
  }
  if (spec.model.path.empty())
    throw UserError("usage: am-logits MODEL_DIR [--adapter DIR] [--dtype float32|bfloat16]");
  const auto self = MakeSelfCommunicator();
  LoadedModel loaded = LoadModel(spec, {self.get(), self.get()}, "");
  const at::AutoGradMode no_record(false);
  for (std::string line; std::getline(std::cin, line);) {
    if (line.empty()) continue;
    Sample sample;
    sample.input_ids = nlohmann::json::parse(line).get<std::vector<int64_t>>();
    sample.labels.assign(sample.input_ids.size(), 0);
    const PackedBatch batch = Pack({&sample}, -100);
    const at::Tensor hidden = loaded.model->Forward(batch, {}, {}, nullptr);
    const at::Tensor logits = at::mm(hidden, loaded.model->head().value.t()).to(at::kFloat);
    auto [max, argmax] = logits.max(-1);
    const at::Tensor ids = argmax.to(at::kLong).contiguous();
    std::cout << nlohmann::json{{"last_logits", Numbers(logits.select(0, logits.size(0) - 1))},
                                {"argmax",
                                 std::vector<int64_t>(ids.data_ptr<int64_t>(),
                                                      ids.data_ptr<int64_t>() + ids.numel())},
                                {"max", Numbers(max)}}
                     .dump()
              << "\n";
  }
  return kExitDone;
}

}  // namespace
}  // namespace am::engine

int main(int argc, char** argv) {
  try {
    return am::engine::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "am-logits: %s\n", error.what());
    return am::kExitUsage;
  }
}

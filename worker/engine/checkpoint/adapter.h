// Adapter: LoRA weights in the format of Hugging Face PEFT (adapter_model.safetensors,
// adapter_config.json), out and in.
//
// What we write loads with PeftModel.from_pretrained; what peft writes (LoRA on linear layers) is
// read, whatever way its target_modules are spelled: the names of the tensors decide.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "worker/engine/checkpoint/checkpointer.h"
#include "worker/rank_io/rank_spec.h"

namespace am::engine {

struct AdapterModule {
  std::string module;  // full path, e.g. model.layers.0.self_attn.q_proj
  at::Tensor lora_a;   // [r, in]
  at::Tensor lora_b;   // [out, r]
};

// Writes adapter_model.safetensors, adapter_config.json, automodel_peft_config.json and the
// tokenizer files of `source_dir` (a model directory; empty: none). Returns what it wrote, relative
// to `out_dir`.
std::vector<ManifestFile> ExportAdapter(const std::vector<AdapterModule>& modules,
                                        const PeftSpec& peft, const std::string& base_model_name,
                                        const std::string& source_dir, const std::string& out_dir);

struct Adapter {
  std::string base_model_name;
  int64_t r = 0;
  double alpha = 0;
  double dropout = 0;
  double scaling = 0;                  // alpha / r, or alpha / sqrt(r) with use_rslora
  std::vector<AdapterModule> modules;  // sorted by module; views of the file
};

// Throws am::Error (kUser) naming file and fault: no adapter, another kind of adapter, a rank that
// differs from r, a lora_A without its lora_B, DoRA, trained biases, further trained modules.
Adapter ReadAdapter(const std::string& dir);

}  // namespace am::engine

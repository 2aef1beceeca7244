// Facts of config.json of a few models, for tests of estimates.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "launcher/model/shape.h"
#include "launcher/plan/workload.h"

namespace am::plan::testing {

inline std::shared_ptr<const model::ModelShape> ShapeFrom(const nlohmann::json& config) {
  absl::StatusOr<model::ModelShape> shape = model::ShapeOf(config);
  if (!shape.ok()) throw std::runtime_error(shape.status().ToString());
  return std::make_shared<const model::ModelShape>(*std::move(shape));
}

struct LlamaSize {
  int64_t hidden, layers, heads, kv_heads, mlp;
  int64_t vocab = 128256;
  bool tied = false;
  int64_t head_dim = 128;
};
inline constexpr LlamaSize kLlama1B{2048, 16, 32, 8, 8192, 128256, true, 64};
inline constexpr LlamaSize kLlama8B{4096, 32, 32, 8, 14336};
inline constexpr LlamaSize kLlama70B{8192, 80, 64, 8, 28672};
inline constexpr LlamaSize kLlama405B{16384, 126, 128, 8, 53248};

inline std::shared_ptr<const model::ModelShape> Llama(const LlamaSize& size) {
  return ShapeFrom({{"model_type", "llama"},
                    {"architectures", {"LlamaForCausalLM"}},
                    {"hidden_size", size.hidden},
                    {"num_hidden_layers", size.layers},
                    {"num_attention_heads", size.heads},
                    {"num_key_value_heads", size.kv_heads},
                    {"head_dim", size.head_dim},
                    {"intermediate_size", size.mlp},
                    {"vocab_size", size.vocab},
                    {"tie_word_embeddings", size.tied}});
}

// 30 billion parameters, 128 experts.
inline std::shared_ptr<const model::ModelShape> Qwen3Moe30B() {
  return ShapeFrom({{"model_type", "qwen3_moe"},
                    {"architectures", {"Qwen3MoeForCausalLM"}},
                    {"hidden_size", 2048},
                    {"num_hidden_layers", 48},
                    {"num_attention_heads", 32},
                    {"num_key_value_heads", 4},
                    {"head_dim", 128},
                    {"intermediate_size", 6144},
                    {"moe_intermediate_size", 768},
                    {"num_experts", 128},
                    {"num_experts_per_tok", 8},
                    {"vocab_size", 151936},
                    {"tie_word_embeddings", false}});
}

// Eight GPUs of 80 GB a node; FSDP over all ranks, bfloat16 with float32 master weights.
inline Workload OnH100(std::shared_ptr<const model::ModelShape> shape, int ranks, int64_t seq,
                       int64_t local_batch) {
  Workload workload;
  workload.shape = std::move(shape);
  workload.node.gpus = 8;
  workload.node.gpu = "H100-SXM";
  workload.node.gpu_memory_gib = 79.6;
  workload.dims.dp_shard = ranks;
  workload.seq_length = seq;
  workload.local_batch_size = workload.micro_batch_size = local_batch;
  workload.global_batch_size = local_batch * ranks;
  return workload;
}

}  // namespace am::plan::testing

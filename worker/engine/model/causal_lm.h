// CausalLm: the single-device decoder of the Llama family (Touvron et al. 2023; Llama, Mistral,
// Qwen2), on packed sequences.
//
// It knows nothing of ranks: parallel/ walks Units() to place the parameters and passes
// ForwardHooks that run around the blocks. The hidden state travels as residual + delta, so that
// each sum is fused with the norm that follows it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "worker/engine/core/parameter.h"
#include "worker/engine/model/batch.h"
#include "worker/engine/model/linear.h"
#include "worker/engine/model/model_config.h"
#include "worker/engine/model/ops.h"
#include "worker/engine/model/rope.h"

namespace am::engine {

struct Stream {
  at::Tensor residual;  // [T, H]
  at::Tensor delta;     // [T, H] or undefined; the hidden state is residual + delta
};

// Called around every block of a forward pass, in order. An implementation may return its argument
// unchanged or passed through a node that runs in backward.
class ForwardHooks {
 public:
  virtual ~ForwardHooks() = default;
  virtual Stream EnterBlock(int64_t block, Stream stream) = 0;
  virtual Stream LeaveBlock(int64_t block, Stream stream) = 0;
};

struct Block {
  Block(const ModelConfig& config, int64_t index);
  int64_t index;
  Parameter input_norm;  // [H]
  Linear qkv;            // [T, H] -> [T, (heads + 2 kv_heads) * head_dim]
  Linear attention_out;
  Parameter post_attention_norm;  // [H]
  Linear gate_up;
  Linear down;
};

class CausalLm {
 public:
  explicit CausalLm(const ModelConfig& config);
  CausalLm(const CausalLm&) = delete;

  // Final hidden states after the last norm, [N, H], at rows `rows` of the batch (ascending), or at
  // all when undefined.
  at::Tensor Forward(const PackedBatch& batch, const PassContext& pass, const at::Tensor& rows,
                     ForwardHooks* hooks);

  // The output projection's weight [V, H]: lm_head, or the embedding when tied.
  Parameter& head();
  const ModelConfig& config() const { return config_; }
  std::vector<Linear*> Linears();
  // Every parameter once: unit i is block i, the last unit is the root (embedding, final norm,
  // head).
  std::vector<std::vector<Parameter*>> Units();

  // Recompute the inside of a block in backward instead of keeping it.
  bool activation_checkpointing = false;

 private:
  Stream RunBlock(Block& block, const Stream& stream, const PackedBatch& batch,
                  const PassContext& pass, const at::Tensor& rows);

  ModelConfig config_;
  AttentionShape attention_;
  RopeTable rope_;
  Parameter embedding_;
  std::vector<std::unique_ptr<Block>> blocks_;
  Parameter final_norm_;
  std::unique_ptr<Parameter> lm_head_;
};

}  // namespace am::engine

// A model small enough to check by other means, with seeded weights.
#pragma once

#include <memory>
#include <vector>

#include "worker/engine/comm/communicator.h"
#include "worker/engine/model/causal_lm.h"
#include "worker/engine/pack.h"
#include "worker/engine/parallel/parameter_store.h"

namespace am::engine {

inline ModelConfig TinyConfig() {
  ModelConfig config;
  config.architecture = "LlamaForCausalLM";
  config.vocab_size = 61;
  config.hidden_size = 32;
  config.intermediate_size = 48;
  config.num_layers = 2;
  config.num_heads = 4;
  config.num_kv_heads = 2;
  config.head_dim = 8;
  config.max_position = 64;
  config.rms_norm_eps = 1e-5;
  return config;
}

struct TinyModel {
  std::unique_ptr<Communicator> self = MakeSelfCommunicator();
  CausalLm model;
  std::unique_ptr<ParameterStore> store;

  explicit TinyModel(const ModelConfig& config = TinyConfig(), const PeftSpec* peft = nullptr);
};

// Sequences of the given lengths with tokens and labels that differ; every third position has no
// label.
std::vector<Sample> TinySamples(const std::vector<int64_t>& lengths);
PackedBatch PackAll(const std::vector<Sample>& samples);

}  // namespace am::engine

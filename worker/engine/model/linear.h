// Linear: y = x W^T + b, W one or several Hugging Face tensors stacked on dim 0, with LoRA adapters
// where attached.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "worker/engine/core/parameter.h"
#include "worker/engine/model/batch.h"
#include "worker/engine/peft/lora.h"

namespace am::engine {

struct Linear {
  Parameter weight;                 // [out, in]
  std::unique_ptr<Parameter> bias;  // [out]
  std::unique_ptr<Lora> lora;
  std::vector<std::string> modules;  // one per piece, e.g. model.layers.0.mlp.gate_proj
  uint32_t layer = 0;
  uint32_t site = 0;

  // `modules` and their output sizes are stacked in order.
  Linear(std::vector<std::pair<std::string, int64_t>> modules, int64_t in, bool bias,
         uint32_t layer, uint32_t site);
  int64_t in_features() const { return weight.shape[1]; }
  int64_t out_features() const { return weight.shape[0]; }
};

// x: [T, in] in the compute dtype -> [T, out]. `rows_of` maps rows of x to rows of the batch
// (undefined: the same) and is only needed for dropout. Gradients of weight, bias and adapters are
// added to their Parameters in backward.
at::Tensor Apply(Linear& linear, const at::Tensor& x, const PackedBatch& batch,
                 const PassContext& pass, const at::Tensor& rows_of = {});

}  // namespace am::engine

// Parameter: a trained (or frozen) tensor of the model, held outside of autograd.
//
// Weights are no autograd leaves here. An operator that uses one takes a Parameter& and reads `value` when it runs, in
// forward and again in backward, and adds its gradient to `grad` itself. So whoever shards, gathers, frees, casts or
// offloads parameters (engine/parallel) only changes what `value` points to; no graph holds on to a weight, no storage
// is resized, and gradients accumulate in the dtype of the buffer without a cast per micro-batch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace am::engine {

struct Parameter {
  std::string name;            // the Hugging Face name, e.g. model.layers.0.self_attn.q_proj.weight
  std::vector<int64_t> shape;  // the global, unsharded shape
  bool trainable = true;

  at::Tensor value;  // full tensor in the compute dtype; undefined while it is sharded away
  at::Tensor grad;   // full-shape gradient; undefined until the first AddGrad of a step

  int64_t numel() const;

  // grad += g, in `grad_dtype`; the first call of a step stores instead of adding. `g` has `shape`.
  void AddGrad(const at::Tensor& g);
  // For operators that write the product themselves, e.g. addmm_ into the buffer: an uninitialised buffer in grad_dtype with
  // *first = true, or the running sum with *first = false.
  at::Tensor& GradBuffer(bool* first);
  void ClearGrad();

  at::ScalarType grad_dtype = at::kFloat;
  // Where the gradient lives when its owner has a place for it, e.g. a view of a flat buffer that outlasts the step: `shape`,
  // grad_dtype, contiguous. Undefined: allocated by the first gradient of a step, freed by ClearGrad.
  at::Tensor grad_home;
};

}  // namespace am::engine

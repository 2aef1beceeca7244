// Parameter: a trained (or frozen) tensor of the model, held outside of autograd.
//
// Weights are no autograd leaves here. An operator that uses one takes a Parameter& and reads
// `value` when it runs, in forward and again in backward, and adds its gradient to `grad` itself.
// So whoever shards, gathers, frees, casts or offloads parameters (engine/parallel) only changes
// what `value` points to; no graph holds on to a weight, no storage is resized, and gradients
// accumulate in the dtype of the buffer without a cast per micro-batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace am::engine {

// One Hugging Face tensor inside a parameter: rows [row_begin, row_begin + rows) of dim 0.
struct ParameterPiece {
  std::string name;  // e.g. model.layers.0.self_attn.q_proj.weight
  int64_t row_begin = 0;
  int64_t rows = 0;
};

struct Parameter {
  std::string name;            // for messages; the piece's name where there is one piece
  std::vector<int64_t> shape;  // the global, unsharded shape
  std::vector<ParameterPiece>
      pieces;  // q, k and v are one matrix here and three tensors in a checkpoint
  bool trainable = true;

  at::Tensor value;  // full tensor in the compute dtype; undefined while it is sharded away
  at::Tensor grad;   // full-shape gradient; undefined until the first AddGrad of a step

  int64_t numel() const;

  // grad += g. The first gradient of a step is kept as it comes (bfloat16 stays bfloat16); a second
  // one, or a grad_home, makes the sum float32. Takes over `g`, which has `shape`.
  void AddGrad(at::Tensor g);
  // For float32 operators that write the product themselves (mm_out, addmm_): an uninitialised
  // float32 buffer with *first = true, or the running float32 sum with *first = false.
  at::Tensor& GradBuffer(bool* first);
  // grad += g^T x, the gradient of a matrix [out, in] from g [T, out] and x [T, in]: in float32
  // written into the buffer by the product itself.
  void AddOuterGrad(const at::Tensor& g, const at::Tensor& x);
  void ClearGrad();  // forgets grad; grad_home stays

  // Where the gradient is summed when its owner has a place for it, e.g. a view of a flat buffer
  // that is communicated: float32, `shape`, contiguous. Undefined: allocated by the first gradient
  // of a step.
  at::Tensor grad_home;
};

}  // namespace am::engine

// HeadLoss: output projection and masked cross entropy in one piece, at the positions that carry a
// label and no others.
//
// The losses of the recipes (masked, chunked, fused linear, vocabulary parallel) differ here in how
// many rows of logits exist at once, not in their result. Gradients are computed in the same pass
// over the logits, as in Liger and cut-cross-entropy.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "worker/engine/core/parameter.h"
#include "worker/rank_io/rank_spec.h"

namespace am::engine {

// Rows of logits that a loss keeps at once.
int64_t ChunkRows(const LossSpec& spec);

struct HeadLossResult {
  double loss_sum = 0;  // of the token losses, unscaled
  at::Tensor
      grad_hidden;  // [N, H], d(grad_scale * loss_sum) / d hidden; undefined when grad_scale is 0
};

// hidden: [N, H] in the compute dtype; labels: [N] int64; head: [V, H]. Adds d(grad_scale *
// loss_sum)/dW to head.grad.
HeadLossResult HeadLoss(Parameter& head, const at::Tensor& hidden, const at::Tensor& labels,
                        const LossSpec& spec, double grad_scale);

}  // namespace am::engine

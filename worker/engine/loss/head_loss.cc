#include "worker/engine/loss/head_loss.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/tanh.h>

#include <algorithm>

#include "common/error.h"
#include "worker/engine/core/kernels.h"

namespace am::engine {

int64_t ChunkRows(const LossSpec& spec) {
  if (spec.kind == "masked_ce" || spec.kind == "parallel_ce") return INT64_MAX;
  if (spec.kind == "chunked_ce") return std::max<int64_t>(spec.chunk_len, 1);
  if (spec.kind == "fused_linear_ce") return 512;
  throw UserError("loss_fn: '" + spec.kind +
                  "' is not known; masked_ce, chunked_ce, fused_linear_ce and parallel_ce are");
}

HeadLossResult HeadLoss(Parameter& head, const at::Tensor& hidden_in, const at::Tensor& labels,
                        const LossSpec& spec, double grad_scale) {
  const at::AutoGradMode no_record(false);
  const at::Tensor hidden = hidden_in.detach();
  const int64_t rows = hidden.size(0),
                chunk = std::min(ChunkRows(spec), std::max<int64_t>(rows, 1));
  const bool want_grad = grad_scale != 0;
  HeadLossResult result;
  if (want_grad) result.grad_hidden = at::empty(hidden.sizes(), hidden.options());
  for (int64_t begin = 0; begin < rows; begin += chunk) {
    const int64_t n = std::min(chunk, rows - begin);
    const at::Tensor h = hidden.narrow(0, begin, n);
    at::Tensor logits = at::mm(h, head.value.t());
    at::Tensor tanh;
    if (spec.logit_softcapping > 0) {
      tanh = at::tanh(logits.div(spec.logit_softcapping));
      logits = tanh.mul(spec.logit_softcapping);
    }
    const at::Tensor loss =
        kernels::CrossEntropyInPlace(logits, labels.narrow(0, begin, n), grad_scale);
    result.loss_sum += loss.sum(at::kDouble).item<double>();
    if (!want_grad) continue;
    if (tanh.defined()) logits.mul_(tanh.square().neg_().add_(1));
    at::Tensor grad_rows = result.grad_hidden.narrow(0, begin, n);
    at::mm_out(grad_rows, logits, head.value);
    if (head.trainable) head.AddOuterGrad(logits, h);
  }
  return result;
}

}  // namespace am::engine

#include "worker/engine/core/dropout.h"

#include <ATen/ops/empty.h>

#include "worker/engine/core/random.h"

namespace am::engine {

void ApplyDropout(at::Tensor& x, double p, const DropoutKey& key, const at::Tensor& samples, const at::Tensor& positions,
                  const at::Tensor& rows_of, int64_t first_feature) {
  const auto rows = [&](const at::Tensor& of_batch) {
    return (rows_of.defined() ? of_batch.index_select(0, rows_of) : of_batch).to(at::kLong);
  };
  at::Tensor mask = at::empty(x.sizes(), x.options());
  FillDropoutMask(mask, p, rows(samples), rows(positions), first_feature, ForwardKey(key.seed, key.step, key.layer, key.site));
  x.mul_(mask);
}

}  // namespace am::engine

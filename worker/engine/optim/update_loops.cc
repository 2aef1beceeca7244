#include "worker/engine/optim/update_loops.h"

#include <cmath>

#include "worker/engine/core/cpu_target.h"

namespace am::engine {
namespace {

template <bool kAmsgrad>
AM_ALWAYS_INLINE void AdamLoop(float* __restrict weight, const float* __restrict grad,
                               float* __restrict m, float* __restrict v, float* __restrict max_v,
                               int64_t n, const AdamScalars& s) {
  const AdamScalars c = s;  // by value: the loop must not fear that a store changes it
  // torch.lerp picks the form that is exact at the nearer end.
  const bool near_start = c.beta1_rest < 0.5f;
  const float lerp = near_start ? c.beta1_rest : 1 - c.beta1_rest;
  for (int64_t i = 0; i < n; ++i) {
    const float w = weight[i] * c.keep;
    const float g = grad[i] * c.grad_scale + c.l2 * weight[i];
    const float towards = (g - m[i]) * lerp;
    const float new_m = near_start ? m[i] + towards : g - towards;
    const float new_v = v[i] * c.beta2 + c.beta2_rest * g * g;
    m[i] = new_m;
    v[i] = new_v;
    float second = new_v;
    if constexpr (kAmsgrad) {
      second = max_v[i] > new_v ? max_v[i] : new_v;
      max_v[i] = second;
    }
    const float denominator = std::sqrt(second) / c.bias2_sqrt + c.eps;
    weight[i] = w - c.step_size * new_m / denominator;
  }
}

}  // namespace

AM_TARGET_CLONES void AdamBlock(float* weight, const float* grad, float* m, float* v, float* max_v,
                                int64_t n, const AdamScalars& scalars) {
  if (max_v != nullptr) {
    AdamLoop<true>(weight, grad, m, v, max_v, n, scalars);
  } else {
    AdamLoop<false>(weight, grad, m, v, max_v, n, scalars);
  }
}

AM_TARGET_CLONES void SgdBlock(float* __restrict weight, const float* __restrict grad,
                               float* __restrict buffer, int64_t n, const SgdScalars& scalars) {
  const SgdScalars c = scalars;
  if (buffer == nullptr) {
    for (int64_t i = 0; i < n; ++i) {
      const float g = grad[i] * c.grad_scale + c.l2 * weight[i];
      weight[i] -= c.lr * g;
    }
    return;
  }
  const float old_share = c.first ? 0 : c.momentum;
  const float new_share = c.first ? 1 : c.gradient_share;
  const float direct = c.nesterov ? 1 : 0;
  const float by_buffer = c.nesterov ? c.momentum : 1;
  for (int64_t i = 0; i < n; ++i) {
    const float g = grad[i] * c.grad_scale + c.l2 * weight[i];
    const float b = buffer[i] * old_share + new_share * g;
    buffer[i] = b;
    weight[i] -= c.lr * (direct * g + by_buffer * b);
  }
}

AM_TARGET_CLONES double SumOfSquaresBlock(const float* values, int64_t n) {
  constexpr int64_t kLanes = 32;
  double sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) {
      const double x = values[i + lane];
      sums[lane] += x * x;
    }
  }
  double total = 0;
  for (; i < n; ++i) total += static_cast<double>(values[i]) * values[i];
  for (double sum : sums) total += sum;
  return total;
}

}  // namespace am::engine

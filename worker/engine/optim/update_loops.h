// The arithmetic of the optimizers over one block of float32 values that lies in the first-level
// cache: compiled once per vector level (core/cpu_target.h), without contraction into fused
// multiply-adds, so that ranks on different machines stay bit-equal.
#pragma once

#include <cstdint>

namespace am::engine {

// Per slot and step; every scalar is computed in double and rounded once.
struct AdamScalars {
  float grad_scale = 1;     // negative for maximize
  float l2 = 0;             // Adam: added to the gradient times the weight
  float keep = 1;           // AdamW: 1 - lr * weight_decay
  float beta1_rest = 0.1f;  // 1 - beta1
  float beta2 = 0.999f;
  float beta2_rest = 0.001f;
  float bias2_sqrt = 1;  // sqrt(1 - beta2^t)
  float eps = 1e-8f;
  float step_size = 0;  // lr / (1 - beta1^t)
};

struct SgdScalars {
  float grad_scale = 1;
  float l2 = 0;
  float lr = 0;
  float momentum = 0;
  float gradient_share = 1;  // 1 - dampening
  bool nesterov = false;
  bool first = false;  // the buffer takes the gradient as it is
};

// max_v: null without amsgrad.
void AdamBlock(float* weight, const float* grad, float* m, float* v, float* max_v, int64_t n,
               const AdamScalars& scalars);
// buffer: null without momentum.
void SgdBlock(float* weight, const float* grad, float* buffer, int64_t n,
              const SgdScalars& scalars);
// In double, in an order that depends on n alone.
double SumOfSquaresBlock(const float* values, int64_t n);

}  // namespace am::engine

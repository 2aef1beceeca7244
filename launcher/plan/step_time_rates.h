// Rates: what a GPU and its links do in a second, for the step-time model: datasheet peaks times
// the calibration, and the constants that set kernels apart.
//
// The constants are from published measurements and hardware limits, not fitted:
//   kernels   FlashAttention-2 and Triton kernels against cuDNN and FlashAttention-3: arXiv
//             2407.08608 figure 5, pytorch.org/blog/flexattention; narrow and wide heads: there,
//             too
//   Ampere    kernels written with mma.sync (FlashAttention-2, memory-efficient attention) stay
//             near 600 TFLOP/s on H100 and GB200 alike, whatever newer instructions reach
//   scans     chunked Triton kernels of Mamba-2 and gated delta rules: 10-20 % of peak
#pragma once

#include "launcher/plan/calibration.h"
#include "launcher/plan/workload.h"

namespace am::plan {

struct Rates {
  double products = 0;         // FLOP/s, 16 bits (or 32, where that is the precision)
  double expert_products = 0;  // the same, grouped
  double quantized = 0;        // FLOP/s in the low precision; 0: none is used
  double expert_quantized = 0;
  double memory = 0;  // B/s
  double scan = 0;    // FLOP/s
  bool quantizes_dense = false;
  bool quantizes_experts = false;
  double element = 2;  // bytes of an activation

  // FLOP/s of a layer's attention.
  double Attention(const model::Attention& attention, AttentionKernel kernel) const;

  double peak = 0;  // FLOP/s, 16 bits
  double attention = 0;
};

Rates RatesOf(const Workload& workload, const Calibration& calibration);

// Bytes that leave a rank for its experts' ranks, as copies of a token: distinct ranks (or nodes)
// among `groups` that its `top_k` of `experts` lie on.
double CopiesOfToken(double experts, double top_k, double groups, bool balanced);

}  // namespace am::plan

#include "launcher/plan/step_time_rates.h"

#include <algorithm>
#include <cmath>

namespace am::plan {
namespace {

constexpr double kTera = 1e12;

constexpr double kAmpereFlops = 600 * kTera;  // most that mma.sync does, H100 and later
constexpr double kFlash2Share = 0.50;         // of that, forward and backward together
constexpr double kMemoryEfficientShare = 0.24;

constexpr double kTritonAttention = 0.5;  // of the best kernel: Flex, TileLang
constexpr double kNarrowHead = 0.75;      // 64 and less
constexpr double kWideHead = 0.85;        // above 128: fewer stages fit, backward above all
constexpr double kTileRows = 64;          // queries of a matrix instruction

constexpr double kScanShare = 0.15;

}  // namespace

double Rates::Attention(const model::Attention& shape, AttentionKernel kernel) const {
  double best = attention;
  if (shape.key_dim <= 64) best *= kNarrowHead;
  if (shape.key_dim > 128) best *= kWideHead;
  if (shape.top_k > 0) {
    // Each query picks keys of its own: only the heads that share them fill an instruction's rows.
    // Latent keys are one for all heads.
    double sets = shape.latent ? 1 : static_cast<double>(std::max<int64_t>(1, shape.kv_heads));
    return attention * std::min(1.0, static_cast<double>(shape.heads) / sets / kTileRows);
  }
  switch (kernel) {
    case AttentionKernel::kTransformerEngine:
      return best;
    case AttentionKernel::kFlash:
      return std::min(best, kFlash2Share * kAmpereFlops);
    case AttentionKernel::kSdpa:
      // Keys wider than values rule out the flash kernel there.
      return std::min(
          best,
          (shape.key_dim != shape.value_dim ? kMemoryEfficientShare : kFlash2Share) * kAmpereFlops);
    case AttentionKernel::kFlex:
    case AttentionKernel::kTileLang:
      return kTritonAttention * best;
    case AttentionKernel::kEager:
      return products / 2;  // the whole square, masked
  }
  return best;
}

Rates RatesOf(const Workload& workload, const Calibration& calibration) {
  const NodeShape& node = workload.node;
  Rates rates;
  rates.peak = node.peak_tflops_bf16 * kTera;
  bool wide = workload.precision == Precision::kFloat32;
  rates.element = wide ? 4 : 2;
  double peak = rates.peak;
  if (wide) peak = node.peak_tflops_tf32 > 0 ? node.peak_tflops_tf32 * kTera : rates.peak / 2;
  rates.products = peak * calibration.products;
  rates.expert_products = peak * calibration.expert_products;
  rates.attention = peak * calibration.attention;
  rates.memory = node.gpu_memory_gb_per_s * 1e9 * calibration.memory;
  rates.scan = rates.peak * kScanShare;
  bool low = workload.precision == Precision::kFp8 || workload.precision == Precision::kMxfp8;
  if (low && node.peak_tflops_fp8 > 0) {
    rates.quantizes_experts = true;
    rates.quantizes_dense = workload.kernels.quantized_dense;
    rates.quantized = node.peak_tflops_fp8 * kTera * calibration.low_precision_products;
    rates.expert_quantized = rates.quantized * calibration.expert_products / calibration.products;
  }
  return rates;
}

double CopiesOfToken(double experts, double top_k, double groups, bool balanced) {
  if (groups <= 1 || experts <= 0) return 1;
  double most = std::min(top_k, groups);
  // The balanced fake gate takes top_k experts in a row, starting anywhere.
  if (balanced) return std::min(most, 1 + (top_k - 1) * groups / experts);
  return std::min(most, groups * (1 - std::pow(1 - 1 / groups, top_k)));
}

}  // namespace am::plan

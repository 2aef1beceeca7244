#include "worker/engine/model/rope.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/error.h"

namespace am::engine {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

std::vector<double> Plain(double theta, int64_t dim) {
  std::vector<double> inv(dim / 2);
  for (int64_t i = 0; i < dim / 2; ++i) inv[i] = std::pow(theta, -2.0 * i / dim);
  return inv;
}

// Peng et al. 2023 (YaRN), section 3.2 and 3.4; transformers' _compute_yarn_parameters.
InverseFrequencies Yarn(const RopeConfig& rope, int64_t dim) {
  const double original = static_cast<double>(rope.original_max_position);
  const auto mscale = [](double scale, double m) {
    return scale <= 1 ? 1.0 : 0.1 * m * std::log(scale) + 1.0;
  };
  InverseFrequencies out;
  if (rope.attention_factor) {
    out.attention_factor = *rope.attention_factor;
  } else if (rope.mscale && rope.mscale_all_dim && *rope.mscale != 0 && *rope.mscale_all_dim != 0) {
    out.attention_factor =
        mscale(rope.factor, *rope.mscale) / mscale(rope.factor, *rope.mscale_all_dim);
  } else {
    out.attention_factor = mscale(rope.factor, 1);
  }
  const auto correction = [&](double rotations) {
    return dim * std::log(original / (rotations * kTwoPi)) / (2 * std::log(rope.theta));
  };
  double low = correction(rope.beta_fast), high = correction(rope.beta_slow);
  if (rope.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(dim - 1));
  if (low == high) high += 0.001;
  out.values = Plain(rope.theta, dim);
  for (int64_t i = 0; i < dim / 2; ++i) {
    const double ramp = std::clamp((i - low) / (high - low), 0.0, 1.0);
    const double extrapolation = 1 - ramp;
    out.values[i] =
        out.values[i] / rope.factor * (1 - extrapolation) + out.values[i] * extrapolation;
  }
  return out;
}

// Meta's llama-models, apply_scaling: long wavelengths are divided by the factor, the middle is
// blended.
std::vector<double> Llama3(const RopeConfig& rope, int64_t dim) {
  std::vector<double> inv = Plain(rope.theta, dim);
  const double original = static_cast<double>(rope.original_max_position);
  for (double& f : inv) {
    const double wavelength = kTwoPi / f;
    if (wavelength > original / rope.low_freq_factor) {
      f /= rope.factor;
    } else if (wavelength >= original / rope.high_freq_factor) {
      const double smooth = (original / wavelength - rope.low_freq_factor) /
                            (rope.high_freq_factor - rope.low_freq_factor);
      f = (1 - smooth) * f / rope.factor + smooth * f;
    }
  }
  return inv;
}

}  // namespace

InverseFrequencies RopeFrequencies(const RopeConfig& rope, int64_t head_dim, int64_t max_position,
                                   int64_t seq_len) {
  const int64_t dim = static_cast<int64_t>(head_dim * rope.partial_rotary_factor);
  if (dim != head_dim)
    throw UserError("config.json: partial_rotary_factor: only 1 can be trained yet");
  if (rope.type == "yarn") return Yarn(rope, dim);
  if (rope.type == "llama3") return {Llama3(rope, dim)};
  InverseFrequencies out;
  double theta = rope.theta;
  if (rope.type == "dynamic" && seq_len > max_position) {
    // NTK-aware: theta grows with the sequence once it is longer than what was trained.
    const double ratio = rope.factor * seq_len / max_position - (rope.factor - 1);
    theta *= std::pow(ratio, static_cast<double>(dim) / (dim - 2));
  }
  out.values = Plain(theta, dim);
  if (rope.type == "linear")
    for (double& f : out.values) f /= rope.factor;
  return out;
}

void RopeTable::Prepare(int64_t seq_len) {
  const bool depends_on_length =
      rope_.type == "dynamic" && (seq_len > max_position_ || built_for_ > max_position_);
  if (cos_.defined() && cos_.size(0) >= seq_len && !(depends_on_length && seq_len != built_for_))
    return;
  const InverseFrequencies inv = RopeFrequencies(rope_, head_dim_, max_position_, seq_len);
  const int64_t rows = std::max<int64_t>(seq_len, 256);
  const int64_t half = head_dim_ / 2;
  cos_ = at::empty({rows, half}, at::kFloat);
  sin_ = at::empty({rows, half}, at::kFloat);
  float* c = cos_.data_ptr<float>();
  float* s = sin_.data_ptr<float>();
  for (int64_t p = 0; p < rows; ++p) {
    for (int64_t i = 0; i < half; ++i) {
      // Angles in float32, as the reference takes them: float(position) * float(frequency).
      const float angle = static_cast<float>(p) * static_cast<float>(inv.values[i]);
      c[p * half + i] = static_cast<float>(std::cos(angle) * inv.attention_factor);
      s[p * half + i] = static_cast<float>(std::sin(angle) * inv.attention_factor);
    }
  }
  built_for_ = seq_len;
}

}  // namespace am::engine

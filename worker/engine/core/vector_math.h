// Scalar building blocks of the vectorised loops: loads and stores that convert, and an exponential
// that the compiler can vectorise. For use inside of AM_TARGET_CLONES functions.
#pragma once

#include <c10/util/BFloat16.h>

#include <bit>
#include <cstdint>

#include "worker/engine/core/convert.h"
#include "worker/engine/core/cpu_target.h"

namespace am::engine {

AM_ALWAYS_INLINE float Load(const float* p) { return *p; }
AM_ALWAYS_INLINE float Load(const c10::BFloat16* p) { return BFloat16BitsToFloat(p->x); }
AM_ALWAYS_INLINE void Store(float* p, float value) { *p = value; }
AM_ALWAYS_INLINE void Store(c10::BFloat16* p, float value) { p->x = FloatToBFloat16Bits(value); }

// The value as T would hold it.
template <typename T>
AM_ALWAYS_INLINE float Rounded(float value) {
  if constexpr (sizeof(T) == 2) return BFloat16BitsToFloat(FloatToBFloat16Bits(value));
  return value;
}

// e^x to about 1 unit in the last place: x = n ln 2 + r with n whole and |r| <= ln 2 / 2, e^r by a
// polynomial, 2^n by its bits (Cody & Waite 1980; coefficients of Cephes' expf). 0 below -87, the
// largest finite value above 88.
AM_ALWAYS_INLINE float FastExp(float x) {
  constexpr float kRounder =
      12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest whole number in the low bits
  const float clamped = x > 88.0f ? 88.0f : (x < -87.0f ? -87.0f : x);
  const float shifted = clamped * 1.44269504088896341f + kRounder;
  const float n = shifted - kRounder;
  const int32_t exponent = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRounder);
  const float r = (clamped - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const float result = p * std::bit_cast<float>((exponent + 127) << 23);
  return x < -87.0f ? 0.0f : result;
}

AM_ALWAYS_INLINE float FastSigmoid(float x) { return 1.0f / (1.0f + FastExp(-x)); }

}  // namespace am::engine

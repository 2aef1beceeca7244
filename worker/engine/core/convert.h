// Conversions between float32 and the 16-bit formats over flat memory, vectorised. Rounds to
// nearest even; NaN stays NaN. The inline forms are for use inside of AM_TARGET_CLONES loops.
#pragma once

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <bit>
#include <cstdint>

#include "worker/engine/core/cpu_target.h"

namespace am::engine {

AM_ALWAYS_INLINE float BFloat16BitsToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

AM_ALWAYS_INLINE uint16_t FloatToBFloat16Bits(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  return static_cast<uint16_t>(value != value ? 0x7FC0 : rounded);
}

void ToFloat(const c10::BFloat16* source, float* destination, int64_t n);
void ToFloat(const c10::Half* source, float* destination, int64_t n);
void FromFloat(const float* source, c10::BFloat16* destination, int64_t n);
void FromFloat(const float* source, c10::Half* destination, int64_t n);

}  // namespace am::engine

#include "worker/engine/core/convert.h"

namespace am::engine {

AM_TARGET_CLONES void ToFloat(const c10::BFloat16* source, float* destination, int64_t n) {
  for (int64_t i = 0; i < n; ++i) destination[i] = BFloat16BitsToFloat(source[i].x);
}

AM_TARGET_CLONES void FromFloat(const float* source, c10::BFloat16* destination, int64_t n) {
  for (int64_t i = 0; i < n; ++i) destination[i].x = FloatToBFloat16Bits(source[i]);
}

void ToFloat(const c10::Half* source, float* destination, int64_t n) {
  for (int64_t i = 0; i < n; ++i) destination[i] = static_cast<float>(source[i]);
}

void FromFloat(const float* source, c10::Half* destination, int64_t n) {
  for (int64_t i = 0; i < n; ++i) destination[i] = c10::Half(source[i]);
}

}  // namespace am::engine

// Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random
// numbers: as easy as 1, 2, 3" (SC 2011), and the two ways in which the engine keys it, so that
// random numbers depend on what they are for and not on who draws them: any layout, any order, any
// restart gives the same ones.
//
//   forward pass     key (seed, step, layer, site)   counter (sample in the global batch, token
//   position, feature) initialisation   key (seed, parameter name)      counter (element of the
//   global tensor)
//
// Pure functions; the bulk fills are in random.h.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace am::engine {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

inline PhiloxCounter Philox4x32(PhiloxCounter counter, PhiloxKey key) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t low = uint64_t{0xD2511F53} * counter[0];
    const uint64_t high = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(high >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(high),
               static_cast<uint32_t>(low >> 32) ^ counter[3] ^ key[1], static_cast<uint32_t>(low)};
    key[0] += 0x9E3779B9;  // the golden ratio
    key[1] += 0xBB67AE85;  // sqrt(3) - 1
  }
  return counter;
}

// Keys are drawn from Philox itself, so that related inputs (seed and seed + 1, neighbouring steps)
// give unrelated streams.
PhiloxKey ForwardKey(uint64_t seed, int64_t step, int64_t layer, uint32_t site);
PhiloxKey InitKey(uint64_t seed, std::string_view parameter_name);

// 24 bits as a float in [0, 1).
inline float UniformFromBits(uint32_t bits) { return (bits >> 8) * 0x1p-24f; }

}  // namespace am::engine

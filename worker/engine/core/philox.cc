#include "worker/engine/core/philox.h"

namespace am::engine {
namespace {

// Keeps the two uses apart; any two different numbers would do.
constexpr uint32_t kForwardDomain = 0x666F7277;  // "forw"
constexpr uint32_t kInitDomain = 0x696E6974;     // "init"

uint32_t Low(uint64_t value) { return static_cast<uint32_t>(value); }
uint32_t High(uint64_t value) { return static_cast<uint32_t>(value >> 32); }

// FNV-1a, 64 bits.
uint64_t HashName(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3;
  return hash;
}

}  // namespace

PhiloxKey ForwardKey(uint64_t seed, int64_t step, int64_t layer, uint32_t site) {
  const PhiloxCounter of_step =
      Philox4x32({Low(seed), High(seed), Low(step), High(step)}, {kForwardDomain, 0});
  const PhiloxCounter of_site =
      Philox4x32({Low(layer), site, of_step[2], of_step[3]}, {of_step[0], of_step[1]});
  return {of_site[0], of_site[1]};
}

PhiloxKey InitKey(uint64_t seed, std::string_view parameter_name) {
  const uint64_t name = HashName(parameter_name);
  const PhiloxCounter of_name =
      Philox4x32({Low(seed), High(seed), Low(name), High(name)}, {kInitDomain, 0});
  return {of_name[0], of_name[1]};
}

}  // namespace am::engine

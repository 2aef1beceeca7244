// Any bytes at all as a safetensors file: the parser answers or throws am::Error, and what it
// accepts is consistent.
//   clang++ -std=c++20 -g -O1 -fsanitize=fuzzer,address,undefined -I.
//   tests/fuzz/safetensors_fuzz.cc \
//     worker/engine/checkpoint/safetensors_header.cc -o safetensors_fuzz && ./safetensors_fuzz
//     -max_total_time=60
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "common/error.h"
#include "worker/engine/checkpoint/safetensors_header.h"

namespace {

void Parse(std::string_view file) {
  try {
    const am::engine::SafetensorsHeader header =
        am::engine::ParseSafetensorsHeader(file, "fuzz.safetensors");
    for (const auto& [name, entry] : header.tensors) {
      if (entry.begin > entry.end || header.data_begin + entry.end > file.size()) std::abort();
    }
    for (const auto& [name, place] : am::engine::ParseChunkPlaces(header, "fuzz.safetensors")) {
      if (place.begin < 0) std::abort();
    }
  } catch (const am::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Parse(bytes);
  // Most inputs have an absurd header length; the same bytes behind a fitting one reach the JSON
  // within.
  const size_t cut = bytes.find('\n');
  const size_t header = cut == std::string_view::npos ? size : cut;
  std::string file(8, '\0');
  for (int i = 0; i < 8; ++i) file[i] = static_cast<char>(header >> (8 * i) & 0xff);
  file.append(bytes);
  Parse(file);
  return 0;
}

// SafetensorsHeader: what the head of a safetensors file says, checked against the file before
// anybody uses it.
//
// Pure and free of LibTorch, so that it can be fuzzed alone. A file comes from wherever the model
// came from: its header is hostile input. What is accepted is what the reference implementation
// accepts: tensors sorted by offset cover the data section without gap or overlap, every size is
// shape times dtype, names are unique, the header is at most 100 MB. One more thing is accepted
// there and here refused: fields of a tensor that are not dtype, shape or data_offsets.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace am::engine {

inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;

struct SafetensorsEntry {
  std::string dtype;           // one that DtypeBits knows
  std::vector<int64_t> shape;  // no negative sizes; the product of them fits 63 bits
  uint64_t begin = 0;          // in bytes, from the beginning of the data section
  uint64_t end = 0;
};

struct SafetensorsHeader {
  uint64_t data_begin = 0;  // in bytes, from the beginning of the file
  std::map<std::string, SafetensorsEntry> tensors;
  std::map<std::string, std::string> metadata;
};

// Where a stored 1-D piece lies in the flattened global tensor.
struct ChunkPlace {
  std::vector<int64_t> global_shape;
  int64_t begin = 0;
};
using ChunkPlaces = std::map<std::string, ChunkPlace>;
inline constexpr char kChunksKey[] = "amctl_chunks";

// `file` is the whole file (a map, not a copy); `path` goes into messages. Throws am::Error (kUser)
// that says what is wrong.
SafetensorsHeader ParseSafetensorsHeader(std::string_view file, const std::string& path);

// The places that __metadata__ gives to pieces, checked against the header; none in an ordinary
// file.
ChunkPlaces ParseChunkPlaces(const SafetensorsHeader& header, const std::string& path);

// Bits of an element; 0 for an unknown name.
int DtypeBits(std::string_view dtype);

// The number of elements; false where it does not fit 63 bits or a size is negative.
bool CountElements(const std::vector<int64_t>& shape, int64_t* count);

// A name from a file, for a message: quoted, escaped, shortened.
std::string QuotedName(std::string_view name);

}  // namespace am::engine

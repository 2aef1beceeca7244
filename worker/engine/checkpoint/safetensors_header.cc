#include "worker/engine/checkpoint/safetensors_header.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "common/error.h"

namespace am::engine {
namespace {

using nlohmann::json;

// Walks the header without building a document: repeated names stay visible and depth is bounded by
// the form.
//   {"__metadata__": {text: text}, name: {"dtype": text, "shape": [n...], "data_offsets": [n, n]}}
class HeaderHandler : public nlohmann::json_sax<json> {
 public:
  explicit HeaderHandler(SafetensorsHeader* out) : out_(out) {}
  const std::string& fault() const { return fault_; }

  bool start_object(std::size_t) override {
    if (depth_ == 0) {
      depth_ = 1;
      return true;
    }
    if (depth_ == 1) {
      depth_ = 2;
      entry_ = {};
      seen_fields_.clear();
      return true;
    }
    return Unexpected("an object");
  }

  bool key(std::string& name) override {
    if (depth_ == 1) {
      in_metadata_ = name == "__metadata__";
      if (in_metadata_ ? std::exchange(metadata_seen_, true) : out_->tensors.count(name) > 0) {
        return Fail("has " + QuotedName(name) + " twice");
      }
      name_ = name;
      return true;
    }
    field_ = name;
    if (!seen_fields_.insert(name).second) {
      return Fail(Where() + " has the field " + QuotedName(name) + " twice");
    }
    if (!in_metadata_ && name != "dtype" && name != "shape" && name != "data_offsets") {
      return Fail(Where() + " has the unknown field " + QuotedName(name) +
                  "; a tensor has dtype, shape and data_offsets");
    }
    return true;
  }

  bool end_object() override {
    if (depth_ == 2 && !in_metadata_) {
      for (const char* needed : {"dtype", "shape", "data_offsets"}) {
        if (seen_fields_.count(needed) == 0) return Fail(Where() + " has no " + needed);
      }
      if (offsets_.size() != 2) {
        return Fail(Where() + ": data_offsets has " + std::to_string(offsets_.size()) +
                    " numbers instead of 2");
      }
      entry_.begin = static_cast<uint64_t>(offsets_[0]);
      entry_.end = static_cast<uint64_t>(offsets_[1]);
      out_->tensors.emplace(name_, std::move(entry_));
    }
    --depth_;
    return true;
  }

  bool start_array(std::size_t) override {
    const bool takes_array = depth_ == 2 && !in_metadata_ && !in_array_ &&
                             (field_ == "shape" || field_ == "data_offsets");
    if (!takes_array) return Unexpected("a list");
    in_array_ = true;
    (field_ == "shape" ? entry_.shape : offsets_).clear();
    return true;
  }
  bool end_array() override {
    in_array_ = false;
    return true;
  }

  bool number_integer(int64_t value) override {
    return Fail(Where() + ": " + field_ + " has the negative number " + std::to_string(value));
  }
  bool number_unsigned(uint64_t value) override {
    if (!in_array_) return Unexpected("a number");
    if (value > static_cast<uint64_t>(INT64_MAX)) {
      return Fail(Where() + ": " + field_ + " has " + std::to_string(value) +
                  ", which is too large");
    }
    (field_ == "shape" ? entry_.shape : offsets_).push_back(static_cast<int64_t>(value));
    return true;
  }
  bool string(std::string& value) override {
    if (depth_ == 2 && in_metadata_) {
      out_->metadata.emplace(field_, value);
      return true;
    }
    if (depth_ != 2 || field_ != "dtype") return Unexpected("text");
    if (DtypeBits(value) == 0) return Fail(Where() + " has the unknown dtype " + QuotedName(value));
    entry_.dtype = value;
    return true;
  }
  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("true or false"); }
  bool number_float(double, const std::string&) override { return Unexpected("a fraction"); }
  bool binary(binary_t&) override { return Unexpected("binary data"); }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return Fail("is no valid JSON at byte " + std::to_string(position) + " of it");
  }

 private:
  std::string Where() const {
    if (depth_ == 0) return "it";
    return in_metadata_ ? "__metadata__" : "tensor " + QuotedName(name_);
  }
  bool Unexpected(const std::string& what) {
    const bool at_field = depth_ == 2 && !field_.empty();
    return Fail(Where() + (at_field ? ": " + QuotedName(field_) : "") + " has " + what +
                " where it does not belong");
  }
  bool Fail(const std::string& fault) {
    if (fault_.empty()) fault_ = fault;
    return false;
  }

  SafetensorsHeader* out_;
  std::string fault_;
  int depth_ = 0;
  bool in_metadata_ = false;
  bool metadata_seen_ = false;
  bool in_array_ = false;
  std::string name_;
  std::string field_;
  std::set<std::string> seen_fields_;
  SafetensorsEntry entry_;
  std::vector<int64_t> offsets_;
};

Error Fault(const std::string& path, const std::string& fault) {
  return UserError(path + ": damaged or no safetensors file: " + fault);
}

// What no file of ours or of the reference has after a broken download is said plainly.
void CheckBeginning(std::string_view file, const std::string& path) {
  if (file.empty()) throw Fault(path, "the file is empty");
  if (file.size() < 8) {
    throw Fault(path, "it has " + std::to_string(file.size()) +
                          " bytes, less than the 8 of the header's length");
  }
  if (file.substr(0, 7) == "version") {
    throw Fault(path, "it is a Git LFS pointer, not the file itself; fetch it with git lfs pull");
  }
  if (file.substr(0, 4) == "GGUF") throw Fault(path, "it is a GGUF file");
  if (file.substr(0, 4) == "PK\x03\x04") throw Fault(path, "it is a zip archive (a PyTorch file?)");
}

void CheckEntry(const std::string& name, const SafetensorsEntry& entry, uint64_t data_bytes,
                const std::string& path) {
  const std::string tensor = "tensor " + QuotedName(name);
  if (entry.begin > entry.end) {
    throw Fault(path, tensor + ": data_offsets begin at " + std::to_string(entry.begin) +
                          " and end before, at " + std::to_string(entry.end));
  }
  if (entry.end > data_bytes) {
    throw Fault(path, tensor + " ends at byte " + std::to_string(entry.end) +
                          " of the data, which has " + std::to_string(data_bytes) +
                          "; the file is cut short");
  }
  int64_t count = 0;
  const auto bits = static_cast<unsigned __int128>(DtypeBits(entry.dtype));
  if (!CountElements(entry.shape, &count))
    throw Fault(path, tensor + ": the product of its shape is too large");
  const auto total_bits = static_cast<unsigned __int128>(count) * bits;
  if (total_bits % 8 != 0) throw Fault(path, tensor + ": its elements do not fill whole bytes");
  if (total_bits / 8 != entry.end - entry.begin) {
    throw Fault(path, tensor + " has " + std::to_string(entry.end - entry.begin) +
                          " bytes, but its shape and dtype " + entry.dtype + " need " +
                          (total_bits / 8 > UINT64_MAX
                               ? std::string("far more")
                               : std::to_string(static_cast<uint64_t>(total_bits / 8))));
  }
}

// Sorted by offset, tensors must cover the data section exactly: bytes that belong to no tensor, or
// to two, are a fault.
void CheckCoverage(const SafetensorsHeader& header, uint64_t data_bytes, const std::string& path) {
  using Item = std::pair<const std::string*, const SafetensorsEntry*>;
  std::vector<Item> order;
  order.reserve(header.tensors.size());
  for (const auto& [name, entry] : header.tensors) order.emplace_back(&name, &entry);
  std::sort(order.begin(), order.end(), [](const Item& a, const Item& b) {
    return std::tie(a.second->begin, a.second->end) < std::tie(b.second->begin, b.second->end);
  });
  uint64_t covered = 0;
  const std::string* previous = nullptr;
  for (const auto& [name, entry] : order) {
    if (entry->begin < covered) {
      throw Fault(path,
                  "tensors " + QuotedName(*previous) + " and " + QuotedName(*name) + " overlap");
    }
    if (entry->begin > covered) {
      throw Fault(path, "bytes " + std::to_string(covered) + " to " + std::to_string(entry->begin) +
                            " of the data, before tensor " + QuotedName(*name) +
                            ", belong to no tensor");
    }
    covered = entry->end;
    previous = name;
  }
  if (covered != data_bytes) {
    throw Fault(
        path, std::to_string(data_bytes - covered) + " bytes after the last tensor belong to none");
  }
}

}  // namespace

int DtypeBits(std::string_view dtype) {
  static const std::map<std::string_view, int> kBits = {
      {"F4", 4},   {"F6_E2M3", 6},     {"F6_E3M2", 6}, {"BOOL", 8},    {"U8", 8},
      {"I8", 8},   {"F8_E4M3", 8},     {"F8_E5M2", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
      {"I16", 16}, {"F8_E5M2FNUZ", 8}, {"U16", 16},    {"F16", 16},    {"BF16", 16},
      {"I32", 32}, {"U32", 32},        {"F32", 32},    {"I64", 64},    {"U64", 64},
      {"F64", 64}, {"C64", 64}};
  const auto found = kBits.find(dtype);
  return found == kBits.end() ? 0 : found->second;
}

bool CountElements(const std::vector<int64_t>& shape, int64_t* count) {
  *count = 1;
  // A zero makes the product zero whatever stands beside it, so it is looked for first.
  if (std::any_of(shape.begin(), shape.end(), [](int64_t size) { return size < 0; })) return false;
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) {
    *count = 0;
    return true;
  }
  for (const int64_t size : shape) {
    if (__builtin_mul_overflow(*count, size, count)) return false;
  }
  return true;
}

std::string QuotedName(std::string_view name) {
  constexpr size_t kShown = 120;
  std::string shown(name.substr(0, kShown));
  if (name.size() > kShown) shown += "...";
  return json(shown).dump(-1, ' ', false, json::error_handler_t::replace);
}

SafetensorsHeader ParseSafetensorsHeader(std::string_view file, const std::string& path) {
  CheckBeginning(file, path);
  uint64_t header_bytes = 0;
  for (int i = 7; i >= 0; --i)
    header_bytes = header_bytes << 8 | static_cast<unsigned char>(file[i]);
  if (header_bytes > kMaxHeaderBytes) {
    throw Fault(path, "its header would have " + std::to_string(header_bytes) +
                          " bytes, more than the allowed " + std::to_string(kMaxHeaderBytes));
  }
  if (header_bytes > file.size() - 8) {
    throw Fault(path, "its header has " + std::to_string(header_bytes) +
                          " bytes, but the file ends after " + std::to_string(file.size() - 8) +
                          " of them; it is cut short");
  }
  const std::string_view text = file.substr(8, header_bytes);
  if (text.empty() || text[0] != '{') throw Fault(path, "its header does not begin with '{'");

  SafetensorsHeader header;
  header.data_begin = 8 + header_bytes;
  HeaderHandler handler(&header);
  if (!json::sax_parse(text.begin(), text.end(), &handler)) {
    throw Fault(path, "its header " + handler.fault());
  }
  const uint64_t data_bytes = file.size() - header.data_begin;
  for (const auto& [name, entry] : header.tensors) CheckEntry(name, entry, data_bytes, path);
  CheckCoverage(header, data_bytes, path);
  return header;
}

ChunkPlaces ParseChunkPlaces(const SafetensorsHeader& header, const std::string& path) {
  ChunkPlaces places;
  const auto found = header.metadata.find(kChunksKey);
  if (found == header.metadata.end()) return places;
  const std::string what = std::string("__metadata__: ") + kChunksKey + ": ";
  // At depth 4 and beyond there is nothing of ours.
  const json::parser_callback_t shallow = [](int depth, json::parse_event_t, json&) {
    return depth < 4;
  };
  const json document = json::parse(found->second, shallow, /*allow_exceptions=*/false);
  if (!document.is_object()) throw Fault(path, what + "is no JSON object");
  for (const auto& [name, place] : document.items()) {
    const auto entry = header.tensors.find(name);
    if (entry == header.tensors.end())
      throw Fault(path, what + "names " + QuotedName(name) + ", which is not stored");
    const std::string tensor = what + QuotedName(name);
    if (!place.is_object() || !place.contains("shape") || !place["shape"].is_array() ||
        !place.contains("begin") || !place["begin"].is_number_unsigned()) {
      throw Fault(path, tensor + " needs a shape and a begin");
    }
    ChunkPlace chunk;
    for (const json& size : place["shape"]) {
      if (!size.is_number_unsigned() || size.get<uint64_t>() > INT64_MAX) {
        throw Fault(path, tensor + ": its shape has something else than sizes");
      }
      chunk.global_shape.push_back(size.get<int64_t>());
    }
    int64_t global = 0, stored = 0, end = 0;
    const uint64_t begin = place["begin"].get<uint64_t>();
    if (!CountElements(chunk.global_shape, &global))
      throw Fault(path, tensor + ": the product of its shape is too large");
    CountElements(entry->second.shape, &stored);
    if (entry->second.shape.size() != 1 || begin > INT64_MAX ||
        __builtin_add_overflow(static_cast<int64_t>(begin), stored, &end) || end > global) {
      throw Fault(path, tensor + ": its " + std::to_string(stored) + " elements from " +
                            std::to_string(begin) + " on are not inside a tensor of " +
                            std::to_string(global));
    }
    chunk.begin = static_cast<int64_t>(begin);
    places.emplace(name, std::move(chunk));
  }
  return places;
}

}  // namespace am::engine

#include "worker/text/utf8.h"

#include <cstdint>
#include <cstring>

namespace am::text {
namespace {

// Length of the valid sequence at `text[at]`, or minus the length of the maximal invalid prefix
// there (Unicode 3.9, "substitution of maximal subparts"), which is what Python and Rust replace by
// one U+FFFD.
int SequenceLength(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) -> unsigned {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0u;
  };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return -1;
  const int length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  unsigned low = 0x80,
           high =
               0xBF;  // bounds of the second byte: no overlong form, no surrogate, at most U+10FFFF
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (int i = 1; i < length; ++i) {
    const unsigned next = byte(i);
    if (next < low || next > high) return -i;
    low = 0x80;
    high = 0xBF;
  }
  return length;
}

// First offset at or after `at` with a byte that is not ASCII.
size_t SkipAscii(std::string_view text, size_t at) {
  while (at + 8 <= text.size()) {
    uint64_t word;
    std::memcpy(&word, text.data() + at, 8);
    if (word & 0x8080808080808080u) break;
    at += 8;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

}  // namespace

std::optional<size_t> FindInvalidUtf8(std::string_view text) {
  size_t at = SkipAscii(text, 0);
  while (at < text.size()) {
    const int length = SequenceLength(text, at);
    if (length < 0) return at;
    at = SkipAscii(text, at + length);
  }
  return std::nullopt;
}

std::string ReplaceInvalidUtf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  size_t at = 0;
  while (at < text.size()) {
    const size_t ascii_end = SkipAscii(text, at);
    out.append(text, at, ascii_end - at);
    at = ascii_end;
    if (at == text.size()) break;
    const int length = SequenceLength(text, at);
    if (length > 0) {
      out.append(text, at, length);
      at += length;
    } else {
      out += "\xEF\xBF\xBD";
      at += -length;
    }
  }
  return out;
}

char32_t NextCodePoint(std::string_view text, size_t& offset) {
  const auto byte = [&](size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[offset + i]));
  };
  const char32_t lead = byte(0);
  if (lead < 0x80) {
    offset += 1;
    return lead;
  }
  if (lead < 0xE0) {
    const char32_t point = (lead & 0x1F) << 6 | (byte(1) & 0x3F);
    offset += 2;
    return point;
  }
  if (lead < 0xF0) {
    const char32_t point = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    offset += 3;
    return point;
  }
  const char32_t point =
      (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  offset += 4;
  return point;
}

void AppendUtf8(std::string& out, char32_t code_point) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

}  // namespace am::text

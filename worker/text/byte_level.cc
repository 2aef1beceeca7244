#include "worker/text/byte_level.h"

#include <array>
#include <cstdint>

#include "worker/text/utf8.h"

namespace am::text {
namespace {

struct Alphabet {
  std::array<char16_t, 256> character{};
  std::array<int16_t, 512> byte{};

  constexpr Alphabet() {
    for (int16_t& b : byte) b = -1;
    int others = 0;
    for (int b = 0; b < 256; ++b) {
      const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      character[b] = static_cast<char16_t>(printable ? b : 256 + others++);
      byte[character[b]] = static_cast<int16_t>(b);
    }
  }
};
constexpr Alphabet kAlphabet;

}  // namespace

char32_t ByteLevelCharacter(unsigned char byte) { return kAlphabet.character[byte]; }

std::string ToByteLevel(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char b : bytes) AppendUtf8(out, ByteLevelCharacter(static_cast<unsigned char>(b)));
  return out;
}

bool AppendFromByteLevel(std::string_view token, std::string& out) {
  const size_t before = out.size();
  for (size_t at = 0; at < token.size();) {
    const char32_t c = NextCodePoint(token, at);
    if (c >= kAlphabet.byte.size() || kAlphabet.byte[c] < 0) {
      out.resize(before);
      return false;
    }
    out.push_back(static_cast<char>(kAlphabet.byte[c]));
  }
  return true;
}

}  // namespace am::text

#include "common/random.h"

#include <sys/random.h>

#include "common/check.h"

namespace am {

std::string RandomBase32(int length) {
  static constexpr char kAlphabet[] = "abcdefghijklmnopqrstuvwxyz234567";
  std::string text(static_cast<size_t>(length), '\0');
  AM_CHECK(getrandom(text.data(), text.size(), 0) == length);
  for (char& c : text) c = kAlphabet[static_cast<unsigned char>(c) & 31];
  return text;
}

}  // namespace am

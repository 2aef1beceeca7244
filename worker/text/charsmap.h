// Charsmap: SentencePiece's precompiled normalization, a Darts double array from byte strings to
// replacements.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace am::text {

class Charsmap {
 public:
  Charsmap() = default;
  // Throws am::Error (kUser) when the blob is not one.
  explicit Charsmap(std::string_view blob);

  bool empty() const { return units_.empty(); }
  struct Match {
    size_t length;  // of the key, in bytes
    std::string_view replacement;
  };
  // Longest, or shortest, key that begins `text`.
  std::optional<Match> Longest(std::string_view text) const;
  std::optional<Match> Shortest(std::string_view text) const;

 private:
  std::optional<Match> Search(std::string_view text, bool longest) const;

  std::vector<uint32_t> units_;
  std::string replacements_;  // NUL-terminated, one after another
};

// Hugging Face's way to apply one (its "Precompiled" normalizer): by grapheme clusters, then by
// code points.
std::string ApplyPrecompiled(const Charsmap& map, std::string_view text);

}  // namespace am::text

#include "worker/text/charsmap.h"

#include <cstring>

#include "common/error.h"
#include "worker/text/unicode.h"
#include "worker/text/utf8.h"

namespace am::text {

Charsmap::Charsmap(std::string_view blob) {
  uint32_t trie_bytes = 0;
  if (blob.size() >= 4) std::memcpy(&trie_bytes, blob.data(), 4);
  if (blob.size() < 4 || trie_bytes > blob.size() - 4 || trie_bytes % 4 != 0 || trie_bytes == 0) {
    throw UserError("the precompiled character map is damaged: its sizes do not fit");
  }
  units_.resize(trie_bytes / 4);
  std::memcpy(units_.data(), blob.data() + 4, trie_bytes);
  replacements_ = blob.substr(4 + trie_bytes);
  if (FindInvalidUtf8(replacements_))
    throw UserError("the precompiled character map is damaged: not UTF-8");
  if (replacements_.empty() || replacements_.back() != '\0') replacements_.push_back('\0');
}

// Darts-clone's units: has_leaf in bit 8, the label in bits 0-7 and 31, the offset above bit 10.
std::optional<Charsmap::Match> Charsmap::Search(std::string_view text, bool longest) const {
  const auto offset_of = [](uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); };
  std::optional<Match> found;
  if (units_.empty()) return found;
  size_t node = offset_of(units_[0]);
  for (size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte == 0) break;
    node ^= byte;
    if (node >= units_.size()) break;
    const uint32_t unit = units_[node];
    if ((unit & ((1u << 31) | 0xFF)) != byte) break;
    node ^= offset_of(unit);
    if (unit & (1u << 8)) {
      if (node >= units_.size()) break;
      const uint32_t value = units_[node] & ((1u << 31) - 1);
      if (value >= replacements_.size()) break;
      found = Match{at + 1, std::string_view(replacements_.c_str() + value)};
      if (!longest) break;
    }
  }
  return found;
}

std::optional<Charsmap::Match> Charsmap::Longest(std::string_view text) const {
  return Search(text, true);
}
std::optional<Charsmap::Match> Charsmap::Shortest(std::string_view text) const {
  return Search(text, false);
}

// A cluster of less than six bytes is replaced by what its shortest key maps to, whole; longer ones
// go code point by code point. Odd, but so were the models trained that use it.
std::string ApplyPrecompiled(const Charsmap& map, std::string_view text) {
  struct State {
    const Charsmap& map;
    std::string out;
  } state{map, {}};
  state.out.reserve(text.size());
  ForEachGrapheme(
      text,
      [](void* context, std::string_view cluster) {
        auto& [charsmap, out] = *static_cast<State*>(context);
        if (cluster.size() < 6) {
          if (const auto match = charsmap.Shortest(cluster)) {
            out += match->replacement;
            return;
          }
        }
        for (size_t at = 0; at < cluster.size();) {
          const size_t begin = at;
          NextCodePoint(cluster, at);
          const std::string_view part = cluster.substr(begin, at - begin);
          const auto match = charsmap.Shortest(part);
          out += match ? match->replacement : part;
        }
      },
      &state);
  return std::move(state.out);
}

}  // namespace am::text

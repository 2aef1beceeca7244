#include "worker/text/bpe_model.h"

#include <algorithm>
#include <bit>
#include <queue>

#include "common/error.h"
#include "worker/text/byte_level.h"
#include "worker/text/utf8.h"

namespace am::text {
namespace {

constexpr std::string_view kMetaspace = "\xE2\x96\x81";
constexpr size_t kShortWord = 48;  // symbols; up to here a scan beats a heap

std::string ByteToken(int byte) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  return std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 15] + ">";
}

}  // namespace

void MergeTable::Reserve(size_t merges) {
  slots_.assign(std::bit_ceil(merges * 8 / 5 + 16), Slot{});
  mask_ = slots_.size() - 1;
}

void MergeTable::Insert(int32_t left, int32_t right, Merge merge) {
  if ((size_ + 1) * 3 > slots_.size() * 2) {
    std::vector<Slot> old = std::move(slots_);
    Reserve(size_ * 2 + 8);
    for (const Slot& slot : old) {
      if (slot.key == kEmpty) continue;
      size_t at = Hash(slot.key) & mask_;
      while (slots_[at].key != kEmpty) at = (at + 1) & mask_;
      slots_[at] = slot;
    }
  }
  const uint64_t key = Key(left, right);
  size_t at = Hash(key) & mask_;
  while (slots_[at].key != kEmpty && slots_[at].key != key) at = (at + 1) & mask_;
  size_ += slots_[at].key == kEmpty;
  slots_[at] = {key, merge};
}

BpeModel::BpeModel(Vocabulary vocabulary, MergeTable merges, BpeOptions options)
    : Model(std::move(vocabulary)), merges_(std::move(merges)), options_(std::move(options)) {
  all_bytes_ = true;
  for (int byte = 0; byte < 256; ++byte) {
    std::string token;
    if (options_.byte_level) {
      AppendUtf8(token, ByteLevelCharacter(static_cast<unsigned char>(byte)));
    } else {
      token = ByteToken(byte);
    }
    byte_ids_[byte] = this->vocabulary().Find(token).value_or(-1);
    all_bytes_ &= byte_ids_[byte] >= 0;
  }
}

size_t BpeModel::FirstWord(std::string_view text) const {
  if (!options_.cut_at_metaspace) return text.size();
  size_t at = 0;
  do {
    while (text.substr(at, 3) == kMetaspace) at += 3;
    at = std::min(text.find(kMetaspace, at), text.size());
  } while (at < text.size() && options_.no_cut_after[static_cast<unsigned char>(text[at - 1])]);
  return at;
}

void BpeModel::Encode(std::string_view word, std::vector<int32_t>& ids) const {
  if (options_.ignore_merges) {
    if (const auto id = vocabulary().Find(options_.byte_level ? ToByteLevel(word) : word)) {
      ids.push_back(*id);
      return;
    }
  }
  const size_t begin = ids.size();
  const bool plain =
      options_.continuing_subword_prefix.empty() && options_.end_of_word_suffix.empty();
  if (options_.byte_level && all_bytes_ && plain) {
    for (const char byte : word) ids.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
  } else {
    Symbols(options_.byte_level ? ToByteLevel(word) : word, ids);
  }
  if (ids.size() - begin <= kShortWord) {
    MergeShort(ids, begin);
  } else {
    MergeLong(ids, begin);
  }
}

// One id for each code point. What is not in the vocabulary becomes its bytes, else the unknown
// token, else nothing. An unknown token that waits for others to fuse with is not written before
// bytes that follow it: the reference implementation has it so.
void BpeModel::Symbols(std::string_view word, std::vector<int32_t>& ids) const {
  bool unknown = false;
  std::string decorated;
  for (size_t at = 0; at < word.size();) {
    const size_t begin = at;
    NextCodePoint(word, at);
    std::string_view symbol = word.substr(begin, at - begin);
    const bool prefixed = begin > 0 && !options_.continuing_subword_prefix.empty();
    const bool suffixed = at == word.size() && !options_.end_of_word_suffix.empty();
    if (prefixed || suffixed) {
      decorated = prefixed ? options_.continuing_subword_prefix : std::string();
      decorated += symbol;
      if (suffixed) decorated += options_.end_of_word_suffix;
      symbol = decorated;
    }
    if (const auto id = vocabulary().Find(symbol)) {
      if (unknown) ids.push_back(*options_.unk_id);
      unknown = false;
      ids.push_back(*id);
      continue;
    }
    if (options_.byte_fallback && !options_.byte_level &&
        std::all_of(symbol.begin(), symbol.end(),
                    [&](char b) { return byte_ids_[static_cast<unsigned char>(b)] >= 0; })) {
      for (const char b : symbol) ids.push_back(byte_ids_[static_cast<unsigned char>(b)]);
      continue;
    }
    if (options_.unk_missing) {
      throw UserError("`" + std::string(symbol) +
                      "` has no token, and the unk_token is not in the vocabulary");
    }
    if (!options_.unk_id) continue;
    if (unknown && !options_.fuse_unk) ids.push_back(*options_.unk_id);
    unknown = true;
  }
  if (unknown) ids.push_back(*options_.unk_id);
}

void BpeModel::MergeShort(std::vector<int32_t>& ids, size_t begin) const {
  int32_t* symbols = ids.data() + begin;
  size_t count = ids.size() - begin;
  MergeTable::Merge merges[kShortWord];  // of symbol i and its right neighbour
  for (size_t i = 0; i + 1 < count; ++i) merges[i] = merges_.Find(symbols[i], symbols[i + 1]);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].rank == MergeTable::kNone) break;
    symbols[best] = merges[best].id;
    --count;
    std::copy(symbols + best + 2, symbols + count + 1, symbols + best + 1);
    if (best + 1 < count) std::copy(merges + best + 2, merges + count, merges + best + 1);
    if (best > 0) merges[best - 1] = merges_.Find(symbols[best - 1], symbols[best]);
    if (best + 1 < count) merges[best] = merges_.Find(symbols[best], symbols[best + 1]);
  }
  ids.resize(begin + count);
}

// The same result by a heap: lowest rank first, leftmost of equals.
void BpeModel::MergeLong(std::vector<int32_t>& ids, size_t begin) const {
  struct Symbol {
    int32_t id;
    int32_t previous, next;   // -1: none
    MergeTable::Merge merge;  // with the next one
  };
  const auto count = static_cast<int32_t>(ids.size() - begin);
  std::vector<Symbol> symbols(count);
  using Entry = uint64_t;  // rank, position
  std::vector<Entry> storage;
  storage.reserve(count * 2);
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue(std::greater<>(),
                                                                       std::move(storage));
  const auto look = [&](int32_t at) {
    Symbol& symbol = symbols[at];
    symbol.merge =
        symbol.next < 0 ? MergeTable::Merge{} : merges_.Find(symbol.id, symbols[symbol.next].id);
    if (symbol.merge.rank != MergeTable::kNone) {
      queue.push(static_cast<uint64_t>(symbol.merge.rank) << 32 | static_cast<uint32_t>(at));
    }
  };
  for (int32_t i = 0; i < count; ++i)
    symbols[i] = {ids[begin + i], i - 1, i + 1 < count ? i + 1 : -1, {}};
  for (int32_t i = 0; i < count; ++i) look(i);
  while (!queue.empty()) {
    const Entry top = queue.top();
    queue.pop();
    const auto at = static_cast<int32_t>(static_cast<uint32_t>(top));
    Symbol& symbol = symbols[at];
    if (symbol.id < 0 || symbol.merge.rank != top >> 32)
      continue;  // merged away, or the pair has changed
    const int32_t right = symbol.next;
    symbol.id = symbol.merge.id;
    symbol.next = symbols[right].next;
    symbols[right].id = -1;
    if (symbol.next >= 0) symbols[symbol.next].previous = at;
    look(at);
    if (symbol.previous >= 0) look(symbol.previous);
  }
  ids.resize(begin);
  for (int32_t at = 0; at >= 0 && count > 0; at = symbols[at].next) ids.push_back(symbols[at].id);
}

}  // namespace am::text

// Vocabulary: token texts and ids, both ways. Built once while loading, then read by any number of
// threads.
//
// Texts lie in one arena; an open-addressing table of 8-byte slots finds them, so that a quarter of
// a million entries load in milliseconds.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace am::text {

inline uint64_t HashBytes(std::string_view bytes) {
  constexpr uint64_t kMultiplier = 0x9E3779B97F4A7C15u;
  uint64_t hash = bytes.size() * kMultiplier;
  const auto mix = [&hash](uint64_t word) {
    const auto product = static_cast<unsigned __int128>(hash ^ word) * kMultiplier;
    hash = static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
  };
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, 8);
    mix(word);
  }
  uint64_t tail = 0;
  std::memcpy(&tail, bytes.data() + at, bytes.size() - at);
  mix(tail + 1);
  return hash;
}

class Vocabulary {
 public:
  static constexpr int64_t kMaxId = 16'000'000;  // ids index arrays; no tokenizer comes near

  void Reserve(size_t tokens, size_t bytes);
  // Adds or moves `token`; the last id given to a text holds, and the last text given to an id.
  // `id` is in [0, kMaxId].
  void Insert(std::string_view token, int32_t id);

  std::optional<int32_t> Find(std::string_view token) const {
    return Find(token, HashBytes(token));
  }
  std::optional<int32_t> Find(std::string_view token, uint64_t hash) const;
  // For many searches in a row, which are one cache miss after another: call the three steps for
  // each of a batch of hashes before Find.
  void PrefetchSlot(uint64_t hash) const {
    if (!slots_.empty()) __builtin_prefetch(&slots_[hash & (slots_.size() - 1)]);
  }
  void PrefetchEntry(uint64_t hash) const {
    if (const Slot* slot = Home(hash)) __builtin_prefetch(&entries_[slot->entry_plus_one - 1]);
  }
  void PrefetchText(uint64_t hash) const {
    if (const Slot* slot = Home(hash))
      __builtin_prefetch(arena_.data() + entries_[slot->entry_plus_one - 1].offset);
  }

  // "" where no token has the id; Has tells the difference.
  std::string_view Text(int32_t id) const;
  bool Has(int32_t id) const;
  size_t size() const { return entries_.size(); }
  int32_t id_limit() const {
    return static_cast<int32_t>(entry_of_id_.size());
  }  // one more than the largest id

  template <typename Fn>  // fn(text, id), in the order of insertion
  void ForEach(Fn fn) const {
    for (const Entry& entry : entries_) fn(TextOf(entry), entry.id);
  }

 private:
  struct Entry {
    uint32_t offset;
    uint32_t length;
    int32_t id;
  };
  struct Slot {
    uint32_t hash;
    uint32_t entry_plus_one = 0;
  };
  std::string_view TextOf(const Entry& entry) const {
    return {arena_.data() + entry.offset, entry.length};
  }
  const Slot* Home(uint64_t hash) const {  // where a search begins, when something stands there
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[hash & (slots_.size() - 1)];
    return slot.entry_plus_one == 0 ? nullptr : &slot;
  }
  size_t SlotOf(std::string_view token, uint64_t hash) const;
  void Grow(size_t slots);

  std::string arena_;
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> entry_of_id_;  // plus one; 0: none
};

}  // namespace am::text

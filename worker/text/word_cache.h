// WordCache: the ids of words that were encoded before. One per thread and tokenizer; when full it
// starts afresh.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "worker/text/vocabulary.h"

namespace am::text {

class WordCache {
 public:
  static constexpr size_t kMaxWordBytes = 96;

  // The ids of `word`, or encode(word, ids) appended to the cache's own store. They live until the
  // next call.
  template <typename Encode>
  void Append(std::string_view word, std::vector<int32_t>& out, Encode encode) {
    if (word.size() > kMaxWordBytes) return encode(word, out);
    const uint64_t hash = HashBytes(word);
    size_t at = hash & mask_;
    for (; slots_[at].ids_end != 0; at = (at + 1) & mask_) {
      const Slot& slot = slots_[at];
      if (slot.hash == static_cast<uint32_t>(hash >> 32) && slot.length == word.size() &&
          std::string_view(words_.data() + slot.word, slot.length) == word) {
        for (uint32_t i = slot.ids_begin; i < slot.ids_end; ++i) out.push_back(ids_[i]);
        return;
      }
    }
    const size_t before = out.size();
    encode(word, out);
    if (out.size() == before) return;
    if ((count_ + 1) * 2 > slots_.size()) {
      Grow();
      at = FreeSlot(hash);
    }
    const auto ids_begin = static_cast<uint32_t>(ids_.size());
    ids_.insert(ids_.end(), out.begin() + static_cast<ptrdiff_t>(before), out.end());
    slots_[at] = {static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(words_.size()),
                  static_cast<uint32_t>(word.size()), ids_begin,
                  static_cast<uint32_t>(ids_.size())};
    words_ += word;
    ++count_;
  }

 private:
  static constexpr size_t kMaxSlots = 1 << 18;
  struct Slot {
    uint32_t hash, word, length, ids_begin;
    uint32_t ids_end = 0;  // 0: free
  };
  size_t FreeSlot(uint64_t hash) const {
    size_t at = hash & mask_;
    while (slots_[at].ids_end != 0) at = (at + 1) & mask_;
    return at;
  }
  void Grow() {
    std::vector<Slot> old(slots_.size() < kMaxSlots ? slots_.size() * 4 : slots_.size());
    const bool full = old.size() == slots_.size();
    old.swap(slots_);
    mask_ = slots_.size() - 1;
    if (full) {
      words_.clear();
      ids_.clear();
      count_ = 0;
      return;
    }
    for (const Slot& slot : old) {
      if (slot.ids_end == 0) continue;
      slots_[FreeSlot(HashBytes(std::string_view(words_.data() + slot.word, slot.length)))] = slot;
    }
  }

  std::vector<Slot> slots_ = std::vector<Slot>(1024);
  size_t mask_ = 1023;
  size_t count_ = 0;
  std::string words_;
  std::vector<int32_t> ids_;
};

}  // namespace am::text

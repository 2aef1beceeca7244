#include "worker/text/vocabulary.h"

#include <bit>

namespace am::text {

void Vocabulary::Reserve(size_t tokens, size_t bytes) {
  entries_.reserve(tokens);
  arena_.reserve(bytes);
  entry_of_id_.reserve(tokens);
  Grow(std::bit_ceil(tokens * 3 / 2 + 16));
}

void Vocabulary::Grow(size_t slots) {
  if (slots <= slots_.size()) return;
  slots_.assign(slots, Slot{});
  for (size_t i = 0; i < entries_.size(); ++i) {
    const std::string_view text = TextOf(entries_[i]);
    const uint64_t hash = HashBytes(text);
    slots_[SlotOf(text, hash)] = {static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(i + 1)};
  }
}

size_t Vocabulary::SlotOf(std::string_view token, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  const uint32_t short_hash = static_cast<uint32_t>(hash >> 32);
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.entry_plus_one == 0) return at;
    if (slot.hash == short_hash && TextOf(entries_[slot.entry_plus_one - 1]) == token) return at;
  }
}

void Vocabulary::Insert(std::string_view token, int32_t id) {
  if ((entries_.size() + 1) * 10 > slots_.size() * 7)
    Grow(std::bit_ceil((entries_.size() + 8) * 2));
  const uint64_t hash = HashBytes(token);
  Slot& slot = slots_[SlotOf(token, hash)];
  if (slot.entry_plus_one == 0) {
    entries_.push_back(
        {static_cast<uint32_t>(arena_.size()), static_cast<uint32_t>(token.size()), id});
    arena_.append(token);
    slot = {static_cast<uint32_t>(hash >> 32), static_cast<uint32_t>(entries_.size())};
  } else {
    entries_[slot.entry_plus_one - 1].id = id;
  }
  if (static_cast<size_t>(id) >= entry_of_id_.size()) entry_of_id_.resize(id + 1, 0);
  entry_of_id_[id] = slot.entry_plus_one;
}

std::optional<int32_t> Vocabulary::Find(std::string_view token, uint64_t hash) const {
  if (slots_.empty()) return std::nullopt;
  const Slot& slot = slots_[SlotOf(token, hash)];
  if (slot.entry_plus_one == 0) return std::nullopt;
  return entries_[slot.entry_plus_one - 1].id;
}

bool Vocabulary::Has(int32_t id) const {
  return id >= 0 && static_cast<size_t>(id) < entry_of_id_.size() && entry_of_id_[id] != 0;
}

std::string_view Vocabulary::Text(int32_t id) const {
  return Has(id) ? TextOf(entries_[entry_of_id_[id] - 1]) : std::string_view();
}

}  // namespace am::text

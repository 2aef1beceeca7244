// BpeModel: byte-pair encoding by a table of merges, with byte fallback and unknown tokens as
// Hugging Face has them.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "worker/text/model.h"

namespace am::text {

// (left id, right id) -> (rank, id of the joint token); open addressing, 16 bytes a slot.
class MergeTable {
 public:
  struct Merge {
    uint32_t rank = kNone;
    int32_t id = -1;
  };
  static constexpr uint32_t kNone = 0xFFFFFFFF;

  void Reserve(size_t merges);
  void Prefetch(int32_t left, int32_t right) const {
    if (!slots_.empty()) __builtin_prefetch(&slots_[Hash(Key(left, right)) & mask_]);
  }
  void Insert(int32_t left, int32_t right, Merge merge);  // the last merge given for a pair holds
  Merge Find(int32_t left, int32_t right) const {
    if (slots_.empty()) return {};
    const uint64_t key = Key(left, right);
    for (size_t at = Hash(key) & mask_;; at = (at + 1) & mask_) {
      const Slot& slot = slots_[at];
      if (slot.key == key) return slot.merge;
      if (slot.key == kEmpty) return {};
    }
  }

 private:
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge;
  };
  static uint64_t Key(int32_t left, int32_t right) {
    return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
  }
  static uint64_t Hash(uint64_t key) {
    key *= 0x9E3779B97F4A7C15u;
    return key ^ key >> 32;
  }
  std::vector<Slot> slots_;
  size_t mask_ = 0;
  size_t size_ = 0;
};

struct BpeOptions {
  std::optional<int32_t> unk_id;
  bool unk_missing =
      false;  // an unk_token is named that the vocabulary lacks: an error where it is needed
  bool fuse_unk = false;
  bool byte_fallback = false;
  bool ignore_merges = false;  // a word that is a token is that token
  std::string continuing_subword_prefix;
  std::string end_of_word_suffix;
  bool byte_level = false;  // words come as bytes, tokens are spelled in GPT-2's alphabet
  // Where no pre-tokenizer cuts, words are cut before a run of U+2581, which no merge may join with
  // what stands before; those few that do are told by the last byte of their left side.
  bool cut_at_metaspace = false;
  std::array<bool, 256> no_cut_after{};
};

class BpeModel : public Model {
 public:
  BpeModel(Vocabulary vocabulary, MergeTable merges, BpeOptions options);
  void Encode(std::string_view word, std::vector<int32_t>& ids) const override;
  size_t FirstWord(std::string_view text) const override;

 private:
  void Symbols(std::string_view word, std::vector<int32_t>& ids) const;
  void MergeShort(std::vector<int32_t>& ids, size_t begin) const;
  void MergeLong(std::vector<int32_t>& ids, size_t begin) const;

  MergeTable merges_;
  BpeOptions options_;
  std::array<int32_t, 256>
      byte_ids_;  // of bytes (byte level) or of <0x00>.. (byte fallback); -1: none
  bool all_bytes_ = false;
};

}  // namespace am::text

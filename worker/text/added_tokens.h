// AddedTokens: tokens that are found in the text before the model sees it (special tokens and the
// like).
//
// Those with normalized = false are searched in the text as it came, the others afterwards in the
// normalized text; of several at a place the longest wins.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "worker/text/byte_trie.h"
#include "worker/text/function_ref.h"
#include "worker/text/model.h"
#include "worker/text/normalizer.h"

namespace am::text {

struct AddedToken {
  std::string content;
  bool single_word = false;  // only where no word character adjoins
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;
  bool normalized = true;
  bool special = false;  // skipped by Decode on request
  bool operator==(const AddedToken&) const = default;
};

class AddedTokens {
 public:
  // Ids come from the tokens added before, then from the model, else they are the next ones. Call
  // Build afterwards.
  void Add(AddedToken token, const Model& model, const Normalizer& normalizer);
  void Build();

  std::optional<int32_t> Find(std::string_view content) const;
  // What Decode writes for the id: the normalized form where that differs; nothing where the id is
  // none of ours.
  const std::string* DecodedText(int32_t id) const;
  const AddedToken* ById(int32_t id) const;
  bool IsSpecial(std::string_view decoded_text) const {
    return special_.contains(std::string(decoded_text));
  }
  // How many are not in the model's vocabulary.
  int64_t CountBeyond(const Model& model) const;

  using Text = FunctionRef<void(size_t begin, size_t end)>;
  using Token = FunctionRef<void(int32_t id)>;
  // Cuts `text` into tokens of one of the two kinds and the stretches between them, in order.
  void Cut(std::string_view text, bool normalized, Text on_text, Token on_token) const;

 private:
  std::unordered_map<std::string, int32_t> ids_;
  std::map<int32_t, AddedToken> by_id_;
  std::unordered_map<int32_t, std::string> normalized_text_;  // where it differs from the content
  std::unordered_set<std::string> special_;
  ByteTrie raw_, normalized_;
};

}  // namespace am::text

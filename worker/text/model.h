// Model: what turns one word into ids. Four kinds: BPE, Unigram, WordPiece, WordLevel.
//
// Immutable after it is built; the tokenizer keeps a cache of words in front of it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "worker/text/vocabulary.h"

namespace am::text {

class Model {
 public:
  explicit Model(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  virtual ~Model() = default;
  // Appends the ids of `word`, which is not empty.
  virtual void Encode(std::string_view word, std::vector<int32_t>& ids) const = 0;
  // Cuts text that no pre-tokenizer cuts into words that are encoded alike one by one, so that the
  // cache serves them; returns the length of the first. A model that cannot tell takes all of it.
  virtual size_t FirstWord(std::string_view text) const { return text.size(); }

  const Vocabulary& vocabulary() const { return vocabulary_; }
  // Entries of the vocabulary; more than its texts where a text has several (Unigram).
  virtual int64_t size() const { return static_cast<int64_t>(vocabulary_.size()); }

 private:
  Vocabulary vocabulary_;
};

}  // namespace am::text

// UnigramModel: the cut of a word with the highest sum of token scores (Viterbi), as SentencePiece
// has it.
#pragma once

#include <optional>
#include <string>

#include "worker/text/byte_trie.h"
#include "worker/text/model.h"

namespace am::text {

class UnigramModel : public Model {
 public:
  struct Options {
    std::optional<int32_t> unk_id;
    bool byte_fallback = false;
    bool single_precision = false;  // sums are rounded to float, as SentencePiece does
  };
  // `scores[id]` belongs to token `id` of the vocabulary; `reachable` may leave tokens out (control
  // symbols), also from the lowest score, from which that of unknown characters follows.
  UnigramModel(Vocabulary vocabulary, std::vector<double> scores, Options options,
               const std::vector<bool>* reachable = nullptr);
  void Encode(std::string_view word, std::vector<int32_t>& ids) const override;
  int64_t size() const override { return static_cast<int64_t>(scores_.size()); }

 private:
  void EmitUnknown(std::string_view text, std::vector<int32_t>& ids) const;

  std::vector<double> scores_;
  Options options_;
  ByteTrie trie_;
  double unknown_score_ = 0;
};

}  // namespace am::text

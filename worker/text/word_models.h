// WordPieceModel (BERT: longest token first) and WordLevelModel (a word is a token or unknown).
#pragma once

#include <optional>
#include <string>

#include "worker/text/model.h"

namespace am::text {

class WordPieceModel : public Model {
 public:
  WordPieceModel(Vocabulary vocabulary, std::string unk_token, std::string prefix,
                 size_t max_characters);
  void Encode(std::string_view word, std::vector<int32_t>& ids) const override;

 private:
  std::optional<int32_t> unk_id_;
  std::string unk_token_;
  std::string prefix_;
  size_t max_characters_;
};

class WordLevelModel : public Model {
 public:
  WordLevelModel(Vocabulary vocabulary, std::string unk_token);
  void Encode(std::string_view word, std::vector<int32_t>& ids) const override;

 private:
  std::optional<int32_t> unk_id_;
  std::string unk_token_;
};

}  // namespace am::text

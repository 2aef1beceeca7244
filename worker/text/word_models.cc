#include "worker/text/word_models.h"

#include <algorithm>

#include "common/error.h"

namespace am::text {
namespace {

bool Continues(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

int32_t Unknown(const std::optional<int32_t>& id, const std::string& token, std::string_view word) {
  if (!id) {
    throw UserError("`" + std::string(word) +
                    "` is not in the vocabulary, and neither is the unk_token `" + token + "`");
  }
  return *id;
}

}  // namespace

WordPieceModel::WordPieceModel(Vocabulary vocabulary, std::string unk_token, std::string prefix,
                               size_t max_characters)
    : Model(std::move(vocabulary)),
      unk_id_(this->vocabulary().Find(unk_token)),
      unk_token_(std::move(unk_token)),
      prefix_(std::move(prefix)),
      max_characters_(max_characters) {}

void WordPieceModel::Encode(std::string_view word, std::vector<int32_t>& ids) const {
  const size_t before = ids.size();
  const auto characters = static_cast<size_t>(
      std::count_if(word.begin(), word.end(), [](char b) { return !Continues(b); }));
  bool known = characters <= max_characters_;
  std::string candidate;
  for (size_t start = 0; known && start < word.size();) {
    size_t end = word.size();
    for (;; --end) {
      while (end > start && end < word.size() && Continues(word[end])) --end;
      if (end <= start) {
        known = false;
        break;
      }
      candidate = start > 0 ? prefix_ : std::string();
      candidate += word.substr(start, end - start);
      if (const auto id = vocabulary().Find(candidate)) {
        ids.push_back(*id);
        break;
      }
    }
    start = end;
  }
  if (known) return;
  ids.resize(before);
  ids.push_back(Unknown(unk_id_, unk_token_, word));
}

WordLevelModel::WordLevelModel(Vocabulary vocabulary, std::string unk_token)
    : Model(std::move(vocabulary)),
      unk_id_(this->vocabulary().Find(unk_token)),
      unk_token_(std::move(unk_token)) {}

void WordLevelModel::Encode(std::string_view word, std::vector<int32_t>& ids) const {
  const auto id = vocabulary().Find(word);
  ids.push_back(id ? *id : Unknown(unk_id_, unk_token_, word));
}

}  // namespace am::text

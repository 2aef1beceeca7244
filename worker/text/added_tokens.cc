#include "worker/text/added_tokens.h"

#include <algorithm>

#include "worker/text/unicode.h"
#include "worker/text/utf8.h"

namespace am::text {
namespace {

size_t LastCharacter(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

bool EndsWithWord(std::string_view text) {
  if (text.empty()) return false;
  size_t at = LastCharacter(text);
  return IsWordCharacter(NextCodePoint(text, at));
}

bool StartsWithWord(std::string_view text) {
  size_t at = 0;
  return !text.empty() && IsWordCharacter(NextCodePoint(text, at));
}

size_t SpaceBefore(std::string_view text) {  // where the white space at the end of `text` begins
  while (!text.empty()) {
    const size_t last = LastCharacter(text);
    size_t at = last;
    if (!IsWhitespace(NextCodePoint(text, at))) break;
    text = text.substr(0, last);
  }
  return text.size();
}

size_t SpaceAfter(std::string_view text) {  // length of the white space at the beginning of `text`
  size_t end = 0;
  for (size_t at = 0; at < text.size(); end = at) {
    if (!IsWhitespace(NextCodePoint(text, at))) break;
  }
  return end;
}

}  // namespace

void AddedTokens::Add(AddedToken token, const Model& model, const Normalizer& normalizer) {
  if (token.content.empty()) return;
  int32_t id;
  if (const auto known = Find(token.content)) {
    if (by_id_.at(*known) == token) return;
    id = *known;
  } else if (const auto in_model = model.vocabulary().Find(token.content)) {
    id = *in_model;
  } else {
    const auto model_size = static_cast<int32_t>(model.size());
    const int32_t largest = by_id_.empty() ? -1 : by_id_.rbegin()->first;
    id = std::max(largest + 1, model_size);
  }
  if (token.normalized && !normalizer.identity()) {
    Segment segment{token.content};
    normalizer.Apply(segment);
    if (segment.text != token.content) normalized_text_[id] = segment.text;
  }
  ids_[token.content] = id;
  if (token.special) special_.insert(token.content);
  by_id_[id] = std::move(token);
}

void AddedTokens::Build() {
  std::vector<std::pair<std::string_view, int32_t>> raw, normalized;
  for (const auto& [id, token] : by_id_) {
    if (token.normalized) {
      normalized.emplace_back(*DecodedText(id), id);
    } else {
      raw.emplace_back(token.content, id);
    }
  }
  raw_ = ByteTrie(std::move(raw));
  normalized_ = ByteTrie(std::move(normalized));
}

std::optional<int32_t> AddedTokens::Find(std::string_view content) const {
  const auto found = ids_.find(std::string(content));
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

const AddedToken* AddedTokens::ById(int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &found->second;
}

const std::string* AddedTokens::DecodedText(int32_t id) const {
  const auto normalized = normalized_text_.find(id);
  if (normalized != normalized_text_.end()) return &normalized->second;
  const AddedToken* token = ById(id);
  return token == nullptr ? nullptr : &token->content;
}

int64_t AddedTokens::CountBeyond(const Model& model) const {
  return std::count_if(ids_.begin(), ids_.end(),
                       [&](const auto& entry) { return !model.vocabulary().Find(entry.first); });
}

void AddedTokens::Cut(std::string_view text, bool normalized, Text on_text, Token on_token) const {
  const ByteTrie& trie = normalized ? normalized_ : raw_;
  size_t done = 0;
  if (!trie.empty()) {
    for (size_t at = 0; at < text.size();) {
      if (!trie.MayBegin(static_cast<unsigned char>(text[at]))) {
        ++at;
        continue;
      }
      size_t length = 0;
      int32_t id = -1;
      trie.ForEachPrefix(text.substr(at), [&](size_t l, int32_t value) {
        length = l;
        id = value;
      });
      if (id < 0) {
        ++at;
        continue;
      }
      size_t begin = at, end = at + length;
      at = end;
      const AddedToken& token = by_id_.at(id);
      if (token.single_word &&
          (EndsWithWord(text.substr(0, begin)) || StartsWithWord(text.substr(end))))
        continue;
      if (token.lstrip) begin = std::max(SpaceBefore(text.substr(0, begin)), done);
      if (token.rstrip) end += SpaceAfter(text.substr(end));
      if (done < begin) on_text(done, begin);
      on_token(id);
      done = end;
    }
  }
  if (done < text.size()) on_text(done, text.size());
}

}  // namespace am::text

#include "worker/text/unigram_model.h"

#include <algorithm>
#include <limits>

#include "common/error.h"
#include "worker/text/utf8.h"

namespace am::text {
namespace {
constexpr double kUnknownPenalty = 10.0;
constexpr size_t kNoStart = static_cast<size_t>(-1);
}  // namespace

UnigramModel::UnigramModel(Vocabulary vocabulary, std::vector<double> scores, Options options,
                           const std::vector<bool>* reachable)
    : Model(std::move(vocabulary)), scores_(std::move(scores)), options_(options) {
  double lowest = std::numeric_limits<double>::infinity();
  for (size_t id = 0; id < scores_.size(); ++id) {
    if (reachable == nullptr || (*reachable)[id]) lowest = std::min(lowest, scores_[id]);
  }
  unknown_score_ = lowest - kUnknownPenalty;
  if (options_.single_precision) unknown_score_ = static_cast<float>(unknown_score_);
  std::vector<std::pair<std::string_view, int32_t>> keys;
  keys.reserve(this->vocabulary().size());
  this->vocabulary().ForEach([&](std::string_view text, int32_t id) {
    if (reachable == nullptr || (*reachable)[id]) keys.emplace_back(text, id);
  });
  trie_ = ByteTrie(std::move(keys));
}

void UnigramModel::Encode(std::string_view word, std::vector<int32_t>& ids) const {
  struct Best {
    double score = 0;
    size_t start = kNoStart;  // of the last token of the best path that ends here
    int32_t id = -1;          // -1: unknown
  };
  std::vector<Best> best(word.size() + 1);
  const auto offer = [&](size_t start, size_t end, double score, int32_t id) {
    if (options_.single_precision) score = static_cast<float>(score);
    Best& target = best[end];
    if (target.start == kNoStart || score > target.score) target = {score, start, id};
  };
  for (size_t start = 0; start < word.size();) {
    const double so_far = best[start].score;
    size_t next = start;
    NextCodePoint(word, next);
    bool single = false;
    trie_.ForEachPrefix(word.substr(start), [&](size_t length, int32_t id) {
      offer(start, start + length, scores_[id] + so_far, id == options_.unk_id ? -1 : id);
      single |= start + length == next;
    });
    if (!single) {
      if (!options_.unk_id) throw UserError("a character has no token and the model no unk_id");
      offer(start, next, unknown_score_ + so_far, -1);
    }
    start = next;
  }
  std::vector<std::pair<size_t, int32_t>> path;  // starts and ids, from the right
  for (size_t end = word.size(); end > 0; end = best[end].start)
    path.emplace_back(best[end].start, best[end].id);
  for (size_t i = path.size(); i-- > 0;) {
    if (path[i].second >= 0) {
      ids.push_back(path[i].second);
      continue;
    }
    const size_t begin = path[i].first;
    while (i > 0 && path[i - 1].second < 0) --i;  // neighbours fuse
    EmitUnknown(word.substr(begin, (i > 0 ? path[i - 1].first : word.size()) - begin), ids);
  }
}

void UnigramModel::EmitUnknown(std::string_view text, std::vector<int32_t>& ids) const {
  if (const auto id = vocabulary().Find(text)) {
    ids.push_back(*id);
    return;
  }
  if (options_.byte_fallback) {
    const size_t before = ids.size();
    for (const char byte : text) {
      constexpr char kDigits[] = "0123456789ABCDEF";
      const auto b = static_cast<unsigned char>(byte);
      const char token[] = {'<', '0', 'x', kDigits[b >> 4], kDigits[b & 15], '>'};
      const auto id = vocabulary().Find({token, sizeof token});
      if (!id) break;
      ids.push_back(*id);
    }
    if (ids.size() == before + text.size()) return;
    ids.resize(before);
  }
  ids.push_back(*options_.unk_id);
}

}  // namespace am::text

#include "launcher/recipe/suggest.h"

#include <algorithm>
#include <cctype>

namespace am::recipe {
namespace {

constexpr size_t kListed = 12;
constexpr size_t kTied = 5;  // as near as each other

std::string Normal(std::string_view name) {
  std::string normal(name);
  for (char& c : normal) {
    c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return normal;
}

}  // namespace

int EditDistance(std::string_view a, std::string_view b) {
  std::vector<int> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::vector<std::string_view> AllNearest(std::string_view name,
                                         std::span<const std::string_view> known) {
  // Names of hundreds of characters are no misspellings, and the table would be large.
  if (name.size() > 200) return {};
  std::string wanted = Normal(name);
  int limit = std::max(2, static_cast<int>(wanted.size()) / 3);
  limit = std::min(limit, std::max(1, static_cast<int>(wanted.size()) - 1));
  std::vector<std::string_view> best;
  for (std::string_view candidate : known) {
    if (candidate.empty() || candidate.back() == '*') continue;
    int distance = EditDistance(wanted, Normal(candidate));
    if (distance > limit) continue;
    if (distance < limit) best.clear();
    limit = distance;
    if (std::find(best.begin(), best.end(), candidate) == best.end()) best.push_back(candidate);
  }
  if (!best.empty() && limit <= 1) return best;
  // The beginning of a name, long enough to be meant: grad_acc. Of several the shortest.
  std::string_view whole;
  for (std::string_view candidate : known) {
    if (wanted.size() < 4 || !candidate.starts_with(wanted)) continue;
    if (whole.empty() || candidate.size() < whole.size()) whole = candidate;
  }
  if (!whole.empty()) return {whole};
  return best;
}

std::string_view Nearest(std::string_view name, std::span<const std::string_view> known) {
  std::vector<std::string_view> best = AllNearest(name, known);
  return best.empty() ? std::string_view() : best.front();
}

std::string OrWords(std::span<const std::string_view> words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    text += i == 0 ? "" : i + 1 == words.size() ? " or " : ", ";
    text += words[i];
  }
  return text;
}

std::string Suggest(std::string_view name, std::span<const std::string_view> known) {
  std::vector<std::string_view> best = AllNearest(name, known);
  if (best.size() > kTied) best.resize(kTied);
  if (!best.empty()) return "did you mean " + OrWords(best) + "?";
  std::string list;
  size_t listed = 0;
  for (std::string_view candidate : known) {
    if (candidate == "_target_") continue;
    if (listed++ == kListed) {
      list += ", …";
      break;
    }
    list += (listed == 1 ? "known: " : ", ") + std::string(candidate);
  }
  return list;
}

}  // namespace am::recipe

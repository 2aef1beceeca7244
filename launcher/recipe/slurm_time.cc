#include "launcher/recipe/slurm_time.h"

#include <charconv>
#include <cstdio>
#include <vector>

namespace am::recipe {
namespace {

constexpr int64_t kMinute = 60, kHour = 3600, kDay = 86400;
constexpr int64_t kLongest = 1000000;  // of any one field

bool EqualsWord(std::string_view text, std::string_view word) {
  if (text.size() != word.size()) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if ((c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c) != word[i]) return false;
  }
  return true;
}

std::optional<int64_t> Number(std::string_view text) {
  int64_t number = 0;
  if (text.empty() || text.front() < '0' || text.front() > '9') return std::nullopt;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number > kLongest) {
    return std::nullopt;
  }
  return number;
}

// Numbers with colons between them; nothing where one of them is none.
std::optional<std::vector<int64_t>> Fields(std::string_view text) {
  std::vector<int64_t> fields;
  while (true) {
    size_t colon = text.find(':');
    std::optional<int64_t> number = Number(text.substr(0, colon));
    if (!number) return std::nullopt;
    fields.push_back(*number);
    if (colon == std::string_view::npos) return fields;
    text.remove_prefix(colon + 1);
  }
}

}  // namespace

std::optional<SlurmTime> ParseSlurmTime(std::string_view text) {
  for (std::string_view word : {"infinite", "unlimited", "-1"}) {
    if (EqualsWord(text, word)) return SlurmTime{};
  }
  int64_t seconds = 0;
  size_t dash = text.find('-');
  bool has_days = dash != std::string_view::npos;
  if (has_days) {
    std::optional<int64_t> days = Number(text.substr(0, dash));
    if (!days) return std::nullopt;
    seconds = *days * kDay;
    text.remove_prefix(dash + 1);
  }
  std::optional<std::vector<int64_t>> fields = Fields(text);
  if (!fields || fields->size() > 3) return std::nullopt;
  // With days the first field is hours; without, it is minutes unless there are three.
  int64_t unit = has_days || fields->size() == 3 ? kHour : kMinute;
  for (int64_t field : *fields) {
    seconds += field * unit;
    unit /= 60;
  }
  if (seconds == 0) return SlurmTime{};  // as Slurm has it
  return SlurmTime{.seconds = seconds};
}

std::string ToString(const SlurmTime& time) {
  if (!time.seconds) return "UNLIMITED";
  int64_t days = *time.seconds / kDay, rest = *time.seconds % kDay;
  char text[48];
  std::snprintf(text, sizeof text, "%02d:%02d:%02d", static_cast<int>(rest / kHour),
                static_cast<int>(rest % kHour / kMinute), static_cast<int>(rest % kMinute));
  return days > 0 ? std::to_string(days) + "-" + text : text;
}

std::string ToWords(const SlurmTime& time) {
  if (!time.seconds) return "no limit";
  std::string words;
  int64_t rest = *time.seconds;
  struct {
    int64_t unit;
    const char* word;
  } constexpr kUnits[] = {{kDay, " d"}, {kHour, " h"}, {kMinute, " min"}, {1, " s"}};
  for (const auto& [unit, word] : kUnits) {
    if (rest < unit) continue;
    words += (words.empty() ? "" : " ") + std::to_string(rest / unit) + word;
    rest %= unit;
  }
  return words;
}

std::string SlurmTimeHint(std::string_view text) {
  if (text.empty()) return "";
  std::optional<int64_t> number = Number(text.substr(0, text.size() - 1));
  int64_t unit = 0;
  switch (text.back()) {
    case 's':
      unit = 1;
      break;
    case 'm':
      unit = kMinute;
      break;
    case 'h':
      unit = kHour;
      break;
    case 'd':
      unit = kDay;
      break;
  }
  if (!number || unit == 0 || *number == 0) return "";
  return "write " + ToString({.seconds = *number * unit});
}

}  // namespace am::recipe

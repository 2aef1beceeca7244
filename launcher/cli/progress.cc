#include "launcher/cli/progress.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace am::cli {
namespace {

constexpr char kReplacement[] = "\xEF\xBF\xBD";
constexpr double kNewestWeight = 0.2;  // of the moving average of the step time

int64_t Integer(const nlohmann::json& fields, const char* key) {
  auto it = fields.find(key);
  return it != fields.end() && it->is_number_integer() ? it->get<int64_t>() : 0;
}

double Number(const nlohmann::json& fields, const char* key) {
  auto it = fields.find(key);
  return it != fields.end() && it->is_number() ? it->get<double>() : std::nan("");
}

// The length of the UTF-8 sequence that begins here, or 0 where there is none (overlong forms and
// surrogates included).
size_t SequenceLength(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char lead = byte(0);
  size_t length = lead < 0x80   ? 1
                  : lead < 0xC2 ? 0
                  : lead < 0xE0 ? 2
                  : lead < 0xF0 ? 3
                  : lead < 0xF5 ? 4
                                : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  if ((lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xED && byte(1) > 0x9F)) return 0;
  if ((lead == 0xF0 && byte(1) < 0x90) || (lead == 0xF4 && byte(1) > 0x8F)) return 0;
  return length;
}

}  // namespace

void Progress::Update(const RankEvent& event) {
  switch (event.type) {
    case RankEventType::kReady:
      step_ = Integer(event.fields, "step");
      if (int64_t total = Integer(event.fields, "total_steps"); total > 0) total_steps_ = total;
      stepped_ = false;  // after a restart, until it steps again
      activity_ = "ready";
      break;
    case RankEventType::kStep: {
      step_ = Integer(event.fields, "step");
      loss_ = Number(event.fields, "loss");
      tokens_per_s_ = Number(event.fields, "tps");
      double seconds = Number(event.fields, "step_s");
      if (std::isfinite(seconds)) {
        step_s_ = stepped_ ? step_s_ + kNewestWeight * (seconds - step_s_) : seconds;
      }
      stepped_ = true;
      activity_.clear();
      break;
    }
    case RankEventType::kCheckpointBegun:
      activity_ = "saving";
      break;
    case RankEventType::kHello:
      activity_ = "loading";
      stepped_ = false;
      break;
    case RankEventType::kValidation:
    case RankEventType::kCheckpointDone:
    case RankEventType::kHeartbeat:
    case RankEventType::kWarning:
    case RankEventType::kFailed:
    case RankEventType::kDone:
      break;
  }
}

std::string Progress::LiveLine(int width) const {
  std::string line;
  if (stepped_ || step_ > 0) {
    absl::StrAppend(&line, "step ", step_);
    if (total_steps_ > 0) absl::StrAppend(&line, "/", total_steps_);
  }
  if (stepped_) {
    absl::StrAppendFormat(&line, " | loss %.4f | %.0f tokens/s", loss_, tokens_per_s_);
    if (total_steps_ > step_ && step_s_ > 0) {
      absl::StrAppend(&line, " | ", FormatTime(step_s_ * static_cast<double>(total_steps_ - step_)),
                      " left");
    }
  }
  if (!activity_.empty()) absl::StrAppend(&line, line.empty() ? "" : " | ", activity_);
  return line.substr(0, static_cast<size_t>(width > 0 ? width : 0));
}

std::string FormatTime(double seconds) {
  auto whole = static_cast<int64_t>(std::ceil(seconds));
  if (whole < 3600) return absl::StrFormat("%d:%02d", whole / 60, whole % 60);
  return absl::StrFormat("%d:%02d:%02d", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string ForDisplay(std::string_view bytes, size_t max_bytes) {
  while (!bytes.empty() && bytes.back() == '\r') bytes.remove_suffix(1);
  if (size_t bar = bytes.rfind('\r'); bar != std::string_view::npos) bytes.remove_prefix(bar + 1);
  std::string shown;
  while (!bytes.empty()) {
    size_t length = SequenceLength(bytes);
    bool plain =
        length > 1 || (length == 1 && (bytes[0] == '\t' || (bytes[0] >= ' ' && bytes[0] != 0x7F)));
    std::string_view next = plain ? bytes.substr(0, length) : std::string_view(kReplacement);
    if (shown.size() + next.size() > max_bytes) return shown + "…";
    shown += next;
    bytes.remove_prefix(length == 0 ? 1 : length);
  }
  return shown;
}

}  // namespace am::cli

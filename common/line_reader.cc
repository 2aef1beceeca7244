#include "common/line_reader.h"

#include <algorithm>

namespace am {

void LineReader::Feed(std::string_view bytes) {
  while (!bytes.empty()) {
    size_t newline = bytes.find('\n');
    if (newline == std::string_view::npos) return Append(bytes);
    Append(bytes.substr(0, newline));
    Emit();
    bytes.remove_prefix(newline + 1);
  }
}

void LineReader::Finish() {
  if (!line_.empty() || cut_bytes_ > 0) Emit();
}

void LineReader::Append(std::string_view bytes) {
  size_t kept = std::min(bytes.size(), max_line_bytes_ - line_.size());
  line_.append(bytes.substr(0, kept));
  cut_bytes_ += bytes.size() - kept;
}

void LineReader::Emit() {
  on_line_(line_, cut_bytes_);
  line_.clear();
  cut_bytes_ = 0;
}

}  // namespace am

#include "launcher/plan/host_list.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace am::plan {
namespace {

constexpr size_t kMostDigits = 18;  // of a number, leading zeros apart: below 2^63
constexpr size_t kMostWidth = 64;   // with them

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsSeparator(char c) { return c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool IsNameCharacter(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' ||
         c == '.';
}

std::string Padded(uint64_t value, size_t width) {
  std::string digits = std::to_string(value);
  return digits.size() < width ? std::string(width - digits.size(), '0') + digits : digits;
}

struct Range {
  uint64_t low = 0, high = 0;
  size_t width = 1;
};

// A name's text, cut at its brackets: texts[0] brackets[0] texts[1] …; one text more than brackets.
struct Pattern {
  std::vector<std::string> texts = {""};
  std::vector<std::vector<std::string>> brackets;
  size_t hosts = 1;  // the product of the brackets' sizes
};

class Expander {
 public:
  explicit Expander(std::string_view text) : text_(text) {}

  HostList Run() {
    if (text_.size() > kMostHostListBytes) {
      Refuse(kMostHostListBytes, absl::StrCat("longer than ", kMostHostListBytes, " bytes"));
    }
    while (!list_.error && at_ < text_.size()) {
      if (IsSeparator(text_[at_])) {
        ++at_;
      } else {
        Name();
      }
    }
    if (list_.error) list_.hosts.clear();
    return std::move(list_);
  }

 private:
  bool Refuse(size_t offset, std::string message, std::string hint = "") {
    list_.error = {.offset = offset, .message = std::move(message), .hint = std::move(hint)};
    return false;
  }

  void Name() {
    const size_t start = at_;
    Pattern pattern;
    for (; at_ < text_.size() && !IsSeparator(text_[at_]); ++at_) {
      char c = text_[at_];
      if (c == '[') {
        if (!Bracket(pattern, start)) return;
      } else if (c == ']') {
        Refuse(at_, "] closes no bracket", "take it away, or write [ before the numbers");
        return;
      } else if (!IsNameCharacter(c)) {
        Refuse(at_, absl::StrCat(Shown(c), " cannot be part of a node's name"),
               "use letters, digits, '.', '_' and '-'");
        return;
      } else if (c == '-' && at_ == start) {
        Refuse(at_, "a name cannot begin with -, which would be read as an option");
        return;
      } else {
        pattern.texts.back() += c;
      }
    }
    Emit(pattern, start);
  }

  // From [ to ], which is where at_ then stands.
  bool Bracket(Pattern& pattern, size_t name) {
    const size_t open = at_++;
    std::vector<std::string> numbers;
    while (true) {
      std::optional<Range> range = OneRange(open, name);
      if (!range) return false;
      if (range->high - range->low >= kMostHosts - numbers.size()) {
        return TooMany(name);
      }
      for (uint64_t value = range->low; value <= range->high; ++value) {
        numbers.push_back(Padded(value, range->width));
      }
      if (at_ == text_.size()) return Unclosed(open, name);
      if (text_[at_] == ']') break;
      if (text_[at_] != ',') return NotARange();
      ++at_;
    }
    pattern.hosts *= numbers.size();
    if (pattern.hosts > kMostHosts) return TooMany(name);
    pattern.brackets.push_back(std::move(numbers));
    pattern.texts.emplace_back();
    return true;
  }

  std::optional<Range> OneRange(size_t open, size_t name) {
    const size_t start = at_;
    Range range;
    std::optional<uint64_t> low = Number(open, name);
    if (!low) return std::nullopt;
    range.width = at_ - start;
    range.low = range.high = *low;
    if (at_ < text_.size() && text_[at_] == '-') {
      const size_t dash = at_++;
      std::optional<uint64_t> high = Number(open, name);
      if (!high) return std::nullopt;
      range.high = *high;
      if (range.high < range.low) {
        std::string first(text_.substr(start, dash - start));
        std::string last(text_.substr(dash + 1, at_ - dash - 1));
        Refuse(start, absl::StrCat(first, "-", last, " runs backwards"),
               absl::StrCat("write ", last, "-", first));
        return std::nullopt;
      }
    }
    return range;
  }

  std::optional<uint64_t> Number(size_t open, size_t name) {
    const size_t start = at_;
    while (at_ < text_.size() && IsDigit(text_[at_])) ++at_;
    std::string_view digits = text_.substr(start, at_ - start);
    if (digits.empty()) {
      if (at_ == text_.size()) {
        Unclosed(open, name);
      } else {
        NotARange();
      }
      return std::nullopt;
    }
    std::string_view value = digits;
    while (value.size() > 1 && value.front() == '0') value.remove_prefix(1);
    if (value.size() > kMostDigits || digits.size() > kMostWidth) {
      Refuse(start, absl::StrCat("a number of ", digits.size(), " digits"),
             absl::StrCat("use at most ", kMostDigits));
      return std::nullopt;
    }
    uint64_t number = 0;
    for (char c : value) number = number * 10 + static_cast<uint64_t>(c - '0');
    return number;
  }

  bool TooMany(size_t offset) {
    return Refuse(offset, absl::StrCat("more than ", kMostHosts, " nodes"));
  }

  bool Unclosed(size_t open, size_t name) {
    std::string_view rest = text_.substr(name, 40);
    // What was cut off behind a comma shows only the open bracket.
    return Refuse(open, "[ is never closed",
                  rest.back() == ',' || rest.back() == '-' || rest.back() == '['
                      ? "write the rest of the numbers and ]"
                      : absl::StrCat("write ", std::string(rest), "]"));
  }

  bool NotARange() {
    char c = text_[at_];
    if (c == '[') return Refuse(at_, "a bracket within a bracket", "write the ranges in one");
    if (c == ',' || c == ']') {
      return Refuse(at_, "a number is missing", "write ranges such as 1-3 or 001,007");
    }
    return Refuse(at_, absl::StrCat(Shown(c), " where a number was expected"),
                  "within brackets stand numbers and ranges, such as [001-004,7]");
  }

  static std::string Shown(char c) {
    auto byte = static_cast<unsigned char>(c);
    if (byte > 0x20 && byte < 0x7f) return std::string(1, c);
    if (c == ' ') return "a blank";
    return absl::StrCat("the byte 0x", absl::Hex(byte, absl::kZeroPad2));
  }

  void Emit(const Pattern& pattern, size_t start) {
    const size_t count = pattern.brackets.size();
    size_t longest = 0;
    for (const std::string& text : pattern.texts) longest += text.size();
    for (const std::vector<std::string>& numbers : pattern.brackets) {
      longest += numbers.back().size();
    }
    if (pattern.hosts > kMostHosts - list_.hosts.size()) {
      TooMany(start);
      return;
    }
    if (longest > kMostHostLength) {
      Refuse(start, absl::StrCat("a name of ", longest, " characters"),
             absl::StrCat("use at most ", kMostHostLength));
      return;
    }
    std::vector<size_t> digit(count, 0);
    for (size_t i = 0; i < pattern.hosts; ++i) {
      std::string host = pattern.texts[0];
      for (size_t b = 0; b < count; ++b) {
        host += pattern.brackets[b][digit[b]];
        host += pattern.texts[b + 1];
      }
      list_.hosts.push_back(std::move(host));
      // The last bracket runs fastest, then the first, the second, and so on.
      for (size_t step = 0; step < count; ++step) {
        size_t b = step == 0 ? count - 1 : step - 1;
        if (++digit[b] < pattern.brackets[b].size()) break;
        digit[b] = 0;
      }
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  HostList list_;
};

// "node007" as "node" and "007"; no digits where there are none, or too many to count with.
std::pair<std::string_view, std::string_view> PartNumber(std::string_view host) {
  size_t digits = 0;
  while (digits < host.size() && digits < kMostDigits && IsDigit(host[host.size() - 1 - digits])) {
    ++digits;
  }
  bool more = digits < host.size() && IsDigit(host[host.size() - 1 - digits]);
  if (more) digits = 0;
  return {host.substr(0, host.size() - digits), host.substr(host.size() - digits)};
}

}  // namespace

HostList ExpandHostList(std::string_view text) { return Expander(text).Run(); }

std::string CompressHostList(const std::vector<std::string>& hosts) {
  std::string out;
  for (size_t first = 0; first < hosts.size();) {
    auto [prefix, number] = PartNumber(hosts[first]);
    // Ranges of the names that follow with the same prefix.
    std::string ranges;
    size_t next = first;
    while (next < hosts.size()) {
      auto [its_prefix, low] = PartNumber(hosts[next]);
      if (its_prefix != prefix || low.empty()) break;
      uint64_t value = std::stoull(std::string(low));
      size_t end = next + 1;
      std::string_view high = low;
      while (end < hosts.size()) {
        auto [other_prefix, other] = PartNumber(hosts[end]);
        if (other_prefix != prefix || other != Padded(value + 1, low.size())) break;
        ++value, ++end, high = other;
      }
      absl::StrAppend(&ranges, ranges.empty() ? "" : ",", std::string(low));
      if (end > next + 1) absl::StrAppend(&ranges, "-", std::string(high));
      next = end;
    }
    if (!out.empty()) out += ',';
    if (next <= first + 1) {
      out += hosts[first];
      next = first + 1;
    } else {
      absl::StrAppend(&out, std::string(prefix), "[", ranges, "]");
    }
    first = next;
  }
  return out;
}

std::string RenderHostListError(std::string_view text, const HostListError& error) {
  // A window of the text around the place, on one line.
  constexpr size_t kAround = 60;
  size_t start = error.offset > kAround ? error.offset - kAround : 0;
  std::string shown(text.substr(start, 2 * kAround));
  for (char& c : shown) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) > 0x7e) c = ' ';
  }
  return absl::StrCat("host list:", error.offset + 1, ": error: ", error.message,
                      error.hint.empty() ? "" : "; ", error.hint, "\n  ", shown, "\n  ",
                      std::string(error.offset - start, ' '), "^\n");
}

}  // namespace am::plan

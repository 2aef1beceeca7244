#include "launcher/recipe/scalar.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <utility>

#include "launcher/recipe/slurm_time.h"

namespace am::recipe {
namespace {

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return lower;
}

// Without the underscores between digits; nothing where one stands elsewhere.
std::optional<std::string> WithoutUnderscores(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    auto digit = [&](size_t at) {
      return at < text.size() && std::isxdigit(static_cast<unsigned char>(text[at]));
    };
    if (text[i] != '_') {
      plain += text[i];
    } else if (i == 0 || !digit(i - 1) || !digit(i + 1)) {
      return std::nullopt;
    }
  }
  return plain;
}

std::string Number(double value) {
  char text[32];
  auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return {text, end};
}

}  // namespace

bool IsNullWord(std::string_view text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL" ||
         text == "none" || text == "None";
}

std::optional<bool> ParseBool(std::string_view text) {
  std::string lower = Lower(text);
  if (lower == "true" || lower == "yes" || lower == "on") return true;
  if (lower == "false" || lower == "no" || lower == "off") return false;
  return std::nullopt;
}

std::optional<int64_t> ParseInt(std::string_view text) {
  std::optional<std::string> plain = WithoutUnderscores(text);
  if (!plain || plain->empty()) return std::nullopt;
  bool negative = plain->front() == '-';
  size_t at = negative || plain->front() == '+' ? 1 : 0;
  std::string digits = plain->substr(at);
  int base = 10;
  if (digits.starts_with("0x") || digits.starts_with("0X")) {
    base = 16;
    digits.erase(0, 2);
  } else if (digits.size() > 1 && digits.front() == '0' &&
             digits.find_first_not_of("0123456789") == std::string::npos) {
    return std::nullopt;  // 017: octal in YAML 1.1, decimal in 1.2
  }
  if (digits.empty() || !std::isxdigit(static_cast<unsigned char>(digits.front()))) {
    return std::nullopt;
  }
  if (negative) digits.insert(digits.begin(), '-');
  int64_t value = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (error == std::errc() && end == digits.data() + digits.size()) return value;
  if (base != 10) return std::nullopt;
  // 1e3, 8.0: whole, and exact in a double.
  std::optional<double> number = ParseFloat(text);
  if (!number || *number != std::floor(*number) || std::abs(*number) > 9007199254740992.0) {
    return std::nullopt;
  }
  return static_cast<int64_t>(*number);
}

std::optional<double> ParseFloat(std::string_view text) {
  std::optional<std::string> plain = WithoutUnderscores(text);
  if (!plain || plain->empty()) return std::nullopt;
  std::string digits = *plain;
  if (digits.front() == '+') digits.erase(0, 1);
  size_t first = digits.find_first_not_of("-");
  if (first == std::string::npos || first > 1 ||
      !(std::isdigit(static_cast<unsigned char>(digits[first])) || digits[first] == '.')) {
    return std::nullopt;  // from_chars would take "inf" and "nan"
  }
  double value = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::optional<std::string> ParseDtype(std::string_view text) {
  std::string name = Lower(text);
  if (name.starts_with("torch.")) name.erase(0, 6);
  struct {
    std::string_view from, to;
  } constexpr kNames[] = {
      {"auto", "auto"},
      {"float32", "float32"},
      {"fp32", "float32"},
      {"float", "float32"},
      {"bfloat16", "bfloat16"},
      {"bf16", "bfloat16"},
      {"float16", "float16"},
      {"fp16", "float16"},
      {"half", "float16"},
      {"float64", "float64"},
      {"fp64", "float64"},
      {"double", "float64"},
      {"uint8", "uint8"},
      {"int8", "int8"},
      {"float8_e4m3fn", "float8_e4m3fn"},
      {"float8_e5m2", "float8_e5m2"},
  };
  for (const auto& [from, to] : kNames) {
    if (name == from) return std::string(to);
  }
  return std::nullopt;
}

std::optional<std::string> ParseChoice(const Key& key, std::string_view text) {
  std::string wanted = Lower(text);
  for (std::string_view choice : Split(key.choices, ' ')) {
    std::vector<std::string_view> spellings = Split(choice, '=');
    for (std::string_view spelling : spellings) {
      if (Lower(spelling) == wanted) return std::string(spellings.front());
    }
  }
  return std::nullopt;
}

decltype(Value::data) ParseAs(const Key& key, const std::string& text) {
  auto in_range = [&](double value) { return value >= key.least && value <= key.most; };
  switch (key.type) {
    case Type::kBool:
      if (auto parsed = ParseBool(text)) return *parsed;
      return {};
    case Type::kInt:
      if (auto parsed = ParseInt(text); parsed && in_range(static_cast<double>(*parsed))) {
        return *parsed;
      }
      return {};
    case Type::kFloat:
      if (auto parsed = ParseFloat(text); parsed && in_range(*parsed)) return *parsed;
      return {};
    case Type::kDtype:
      if (auto parsed = ParseDtype(text)) return *std::move(parsed);
      return {};
    case Type::kChoice:
      if (auto parsed = ParseChoice(key, text)) return *std::move(parsed);
      return {};
    case Type::kSlurmTime:
      if (auto parsed = ParseSlurmTime(text)) return ToString(*parsed);
      return {};
    default:
      return text;
  }
}

decltype(Value::data) TypeFreely(std::string_view text) {
  if (IsNullWord(text)) return std::monostate();
  std::string lower = Lower(text);
  if (lower == "true") return true;
  if (lower == "false") return false;
  bool whole = text.find_first_of(".eE") == std::string_view::npos || text.starts_with("0x");
  bool grouped = text.find('_') != std::string_view::npos;  // no number in YAML 1.2
  if (!grouped) {
    if (std::optional<int64_t> value = whole ? ParseInt(text) : std::nullopt) return *value;
    if (std::optional<double> value = whole ? std::nullopt : ParseFloat(text)) return *value;
  }
  return std::string(text);
}

Value FallbackOf(const Key& key) {
  Value value;
  value.text = std::string(key.fallback);
  if (key.fallback.empty()) return value;
  switch (key.type) {
    case Type::kBool:
      value.data = ParseBool(key.fallback).value();
      break;
    case Type::kInt:
      value.data = ParseInt(key.fallback).value();
      break;
    case Type::kFloat:
      value.data = ParseFloat(key.fallback).value();
      break;
    case Type::kDtype:
      value.data = ParseDtype(key.fallback).value();
      break;
    case Type::kChoice:
      value.data = ParseChoice(key, key.fallback).value();
      break;
    case Type::kFloats: {
      List list;
      std::string_view inside = key.fallback.substr(1, key.fallback.size() - 2);
      for (std::string_view item : Split(inside, ',')) {
        while (item.starts_with(' ')) item.remove_prefix(1);
        Value number;
        number.data = ParseFloat(item).value();
        number.text = std::string(item);
        list.push_back(std::move(number));
      }
      value.data = std::move(list);
      break;
    }
    case Type::kSlurmTime:
      value.data = ToString(ParseSlurmTime(key.fallback).value());
      break;
    case Type::kText:
    case Type::kTexts:
    case Type::kInts:
    case Type::kFree:
    case Type::kSection:
    case Type::kPart:
    case Type::kSections:
      value.data = std::string(key.fallback);
      break;
  }
  return value;
}

std::string Expectation(const Key& key) {
  auto ranged = [&](std::string what) {
    if (key.least == std::numeric_limits<double>::min()) {
      what += " above 0";
    } else if (key.least != -kAny && key.most != kAny) {
      what += " from " + Number(key.least) + " to " + Number(key.most);
    } else if (key.least != -kAny) {
      what += " of at least " + Number(key.least);
    } else if (key.most != kAny) {
      what += " of at most " + Number(key.most);
    }
    return what;
  };
  switch (key.type) {
    case Type::kBool:
      return "true or false";
    case Type::kInt:
      return ranged("an integer");
    case Type::kFloat:
      return ranged("a number");
    case Type::kText:
      return "text";
    case Type::kDtype:
      return "a dtype such as bfloat16, float16 or float32";
    case Type::kChoice: {
      std::string names;
      for (std::string_view name : ChoiceNames(key)) {
        names += (names.empty() ? "one of " : ", ") + std::string(name);
      }
      return names;
    }
    case Type::kTexts:
      return "text or a list of texts";
    case Type::kFloats:
      return "a list of numbers";
    case Type::kInts:
      return "a list of integers";
    case Type::kSlurmTime:
      return "a time limit as minutes, hours:minutes:seconds or days-hours";
    case Type::kFree:
      return "a value";
    case Type::kSection:
      return "a map of keys";
    case Type::kPart:
      return "a map with _target_";
    case Type::kSections:
      return key.section->alone.empty() ? "a list of maps" : "a list of texts or maps";
  }
  return "a value";
}

}  // namespace am::recipe

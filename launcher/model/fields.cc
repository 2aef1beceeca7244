#include "launcher/model/fields.h"

#include <absl/strings/str_cat.h>

#include <cmath>
#include <utility>

namespace am::model {

using nlohmann::json;

namespace {

// What was read, short enough for a message.
std::string Shown(const json& value) {
  std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  return text.size() > 40 ? text.substr(0, 40) + "…" : text;
}

std::string Text(std::string_view view) { return std::string(view); }

}  // namespace

const json* Fields::Find(std::string_view key) const {
  if (!object_.is_object()) return nullptr;
  auto found = object_.find(Text(key));
  return found != object_.end() && !found->is_null() ? &*found : nullptr;
}

bool Fields::Has(std::string_view key) const { return Find(key) != nullptr; }

bool Fields::IsList(std::string_view key) const {
  const json* value = Find(key);
  return value && value->is_array();
}

bool Fields::IsText(std::string_view key) const {
  const json* value = Find(key);
  return value && value->is_string();
}

void Fields::Fail(std::string_view key, std::string_view what) {
  if (!status_.ok()) return;
  status_ = absl::InvalidArgumentError(absl::StrCat(path_, Text(key), ": ", Text(what)));
}

int64_t Fields::Number(std::string_view key, const json& value, int64_t least, int64_t limit) {
  double real = value.is_number() ? value.get<double>() : -1;
  bool whole = value.is_number() && std::floor(real) == real;
  if (whole && real >= static_cast<double>(least) && real <= static_cast<double>(limit)) {
    return static_cast<int64_t>(real);
  }
  Fail(key, absl::StrCat(Shown(value), " is not a whole number from ", least, " to ", limit));
  return 1;
}

int64_t Fields::Need(std::string_view key, int64_t limit) {
  if (const json* value = Find(key)) return Number(key, *value, 1, limit);
  Fail(key, "is missing");
  return 1;
}

int64_t Fields::Need(std::initializer_list<std::string_view> keys, int64_t limit) {
  for (std::string_view key : keys) {
    if (Has(key)) return Need(key, limit);
  }
  return Need(*keys.begin(), limit);
}

int64_t Fields::Or(std::string_view key, int64_t otherwise, int64_t limit) {
  const json* value = Find(key);
  return value ? Number(key, *value, 0, limit) : otherwise;
}

bool Fields::Flag(std::string_view key, bool otherwise) {
  const json* value = Find(key);
  if (!value) return otherwise;
  if (value->is_boolean()) return value->get<bool>();
  Fail(key, absl::StrCat(Shown(*value), " is neither true nor false"));
  return otherwise;
}

std::string Fields::Word(std::string_view key, std::string_view otherwise) {
  const json* value = Find(key);
  if (!value) return Text(otherwise);
  if (value->is_string()) return value->get<std::string>();
  Fail(key, absl::StrCat(Shown(*value), " is no text"));
  return Text(otherwise);
}

const json* Fields::List(std::string_view key, int64_t count) {
  const json* value = Find(key);
  if (!value) return nullptr;
  if (!value->is_array()) {
    Fail(key, absl::StrCat(Shown(*value), " is no list"));
    return nullptr;
  }
  if (value->size() > static_cast<size_t>(2 * kMaxLayers)) {
    Fail(key, absl::StrCat("has ", value->size(), " entries; no model has so many layers"));
    return nullptr;
  }
  if (static_cast<int64_t>(value->size()) < count) {
    Fail(key, absl::StrCat("has ", value->size(), " entries for ", count, " layers"));
    return nullptr;
  }
  return value;
}

std::vector<std::string> Fields::Words(std::string_view key, int64_t count) {
  std::vector<std::string> words;
  const json* list = List(key, count);
  if (!list) return words;
  for (const json& entry : *list) {
    if (count > 0 && static_cast<int64_t>(words.size()) == count) break;
    if (!entry.is_string()) Fail(key, absl::StrCat(Shown(entry), " is no text"));
    words.push_back(entry.is_string() ? entry.get<std::string>() : "");
  }
  return words;
}

std::vector<int64_t> Fields::Ints(std::string_view key, int64_t count, int64_t limit) {
  std::vector<int64_t> numbers;
  const json* list = List(key, count);
  if (!list) return numbers;
  for (const json& entry : *list) {
    if (count > 0 && static_cast<int64_t>(numbers.size()) == count) break;
    numbers.push_back(Number(key, entry, 0, limit));
  }
  return numbers;
}

Fields Fields::In(std::string_view key) {
  static const json kNothing = json::object();
  const json* value = Find(key);
  if (!value || !value->is_object()) Fail(key, value ? "is no map" : "is missing");
  return Fields(value && value->is_object() ? *value : kNothing, status_,
                absl::StrCat(path_, Text(key), "."));
}

}  // namespace am::model

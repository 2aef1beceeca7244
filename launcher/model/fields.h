// Fields: the numbers of a config.json, read with limits; what is wrong is named once.
//
// A family reads what it needs as if everything were right; the first key that is missing or
// impossible stays in status() and ShapeOf returns it. Bad numbers read as small ones meanwhile.
//   Fields fields(config, status);
//   int64_t hidden = fields.Need("hidden_size");
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace am::model {

inline constexpr int64_t kMaxWidth = int64_t{1} << 20;  // of a dimension, or a count
inline constexpr int64_t kMaxRows = int64_t{1} << 34;   // of a vocabulary or an n-gram table
inline constexpr int64_t kMaxLayers = 4096;
inline constexpr int64_t kMaxSide =
    1024;  // of a patch, a pooling, a convolution; channels of an image

class Fields {
 public:
  // `path` goes before the keys in messages: "text_config.".
  Fields(const nlohmann::json& object, absl::Status& status, std::string path = "")
      : object_(object), status_(status), path_(std::move(path)) {}

  // A whole number from 1 to limit; the first key that is there is read. Missing is an error.
  int64_t Need(std::string_view key, int64_t limit = kMaxWidth);
  int64_t Need(std::initializer_list<std::string_view> keys, int64_t limit = kMaxWidth);
  // The same, `otherwise` where the key is missing or null. Zero is allowed.
  int64_t Or(std::string_view key, int64_t otherwise, int64_t limit = kMaxWidth);
  bool Flag(std::string_view key, bool otherwise);
  std::string Word(std::string_view key, std::string_view otherwise = "");
  bool Has(std::string_view key) const;  // there and not null
  bool IsList(std::string_view key) const;
  bool IsText(std::string_view key) const;

  // Empty where missing or wrong. `count` > 0: one for each layer; more are cut, as overrides of
  // num_hidden_layers leave them.
  std::vector<std::string> Words(std::string_view key, int64_t count = 0);
  std::vector<int64_t> Ints(std::string_view key, int64_t count = 0, int64_t limit = kMaxWidth);
  Fields In(std::string_view key);  // a map inside; missing is an error

  void Fail(std::string_view key, std::string_view what);
  bool ok() const { return status_.ok(); }
  const nlohmann::json& object() const { return object_; }

 private:
  const nlohmann::json* Find(std::string_view key) const;
  int64_t Number(std::string_view key, const nlohmann::json& value, int64_t least, int64_t limit);
  const nlohmann::json* List(std::string_view key, int64_t count);

  const nlohmann::json& object_;
  absl::Status& status_;
  std::string path_;
};

}  // namespace am::model

// Fields of small JSON sections (normalizer, decoder, ...) with messages that name the key and what
// was found.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "common/error.h"

namespace am::text {

inline const nlohmann::json& Field(const nlohmann::json& object, const char* key) {
  if (!object.is_object())
    throw UserError(std::string("expected an object, found ") + object.type_name());
  const auto found = object.find(key);
  if (found == object.end()) throw UserError(std::string(key) + " is missing");
  return *found;
}

inline std::string StringField(const nlohmann::json& object, const char* key) {
  const nlohmann::json& value = Field(object, key);
  if (!value.is_string())
    throw UserError(std::string(key) + ": expected a string, found " + value.type_name());
  return value.get<std::string>();
}

inline bool BoolField(const nlohmann::json& object, const char* key, bool otherwise) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return otherwise;
  if (!found->is_boolean())
    throw UserError(std::string(key) + ": expected true or false, found " + found->type_name());
  return found->get<bool>();
}

inline int64_t IntField(const nlohmann::json& object, const char* key) {
  const nlohmann::json& value = Field(object, key);
  if (!value.is_number_integer())
    throw UserError(std::string(key) + ": expected an integer, found " + value.type_name());
  return value.get<int64_t>();
}

inline const nlohmann::json& ArrayField(const nlohmann::json& object, const char* key) {
  const nlohmann::json& value = Field(object, key);
  if (!value.is_array())
    throw UserError(std::string(key) + ": expected an array, found " + value.type_name());
  return value;
}

}  // namespace am::text

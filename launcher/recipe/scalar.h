// Text of a scalar as the type that its key asks for. Nothing turns into an octal or sexagesimal
// number by surprise.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/recipe/schema.h"
#include "launcher/recipe/value.h"

namespace am::recipe {

std::optional<bool> ParseBool(std::string_view text);     // true, yes, on, … in any case
std::optional<int64_t> ParseInt(std::string_view text);   // 8, 1_000, 0x10; 1e3 and 8.0 are whole
std::optional<double> ParseFloat(std::string_view text);  // 1e-5, .5, -3., 1_000; finite
std::optional<std::string> ParseDtype(std::string_view text);  // "bfloat16", "float32", …, "auto"
// The canonical spelling of one of key.choices.
std::optional<std::string> ParseChoice(const Key& key, std::string_view text);
// The text as the key's type, within its range; null where it is none.
decltype(Value::data) ParseAs(const Key& key, const std::string& text);
bool IsNullWord(std::string_view text);  // "", ~, null, Null, NULL, none, None

// The scalar typed by YAML 1.2's core schema, plus floats without a dot; for free maps.
decltype(Value::data) TypeFreely(std::string_view text);

// The value that a key's fallback declares; null where it has none.
Value FallbackOf(const Key& key);

// "an integer of at least 1", "one of fsdp2, ddp", for messages.
std::string Expectation(const Key& key);

}  // namespace am::recipe

// What the schema says about one key or section, for people and programs: `amctl explain KEY`.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace am::recipe {

// Nothing where there is no such key. An empty key is the whole recipe.
std::optional<std::string> ExplainText(std::string_view dotted);
// {"key", "declarations": [{"part", "type", "default", "nullable", "choices", "least", "most",
// "unit", "means", "support", "instead", "keys", "parts"}]}
std::optional<nlohmann::json> ExplainJson(std::string_view dotted);

// Keys that were probably meant: of that name elsewhere, or spelt alike; the nearest first.
std::vector<std::string> KeysLike(std::string_view dotted);

}  // namespace am::recipe

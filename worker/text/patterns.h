// What "Split" and "Replace" share: {"pattern": {"String": ..} or {"Regex": ..}}.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "worker/text/regex.h"

namespace am::text {

Regex ParsePattern(const nlohmann::json& section);  // reads section["pattern"]
// Replaces every match in `text`. True when the first one stood at its beginning and the text that
// comes instead is no longer aligned with the first character: the match had more than one, or
// nothing replaces it.
bool ReplaceAll(const Regex& regex, const std::string& content, std::string& text);

}  // namespace am::text

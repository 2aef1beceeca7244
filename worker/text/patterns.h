// What "Split" and "Replace" share: {"pattern": {"String": ..} or {"Regex": ..}}.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "worker/text/regex.h"

namespace am::text {

Regex ParsePattern(const nlohmann::json& section);  // reads section["pattern"]
// Replaces every match in `text`; true when the first one stood at its beginning.
bool ReplaceAll(const Regex& regex, const std::string& content, std::string& text);

}  // namespace am::text

#include "worker/text/patterns.h"

#include "worker/text/json_fields.h"
#include "worker/text/utf8.h"

namespace am::text {

Regex ParsePattern(const nlohmann::json& section) {
  const nlohmann::json& pattern = Field(section, "pattern");
  if (pattern.is_object() && pattern.contains("Regex"))
    return Regex::Compile(StringField(pattern, "Regex"));
  if (pattern.is_object() && pattern.contains("String"))
    return Regex::Literal(StringField(pattern, "String"));
  throw UserError("pattern: expected {\"String\": ...} or {\"Regex\": ...}");
}

bool ReplaceAll(const Regex& regex, const std::string& content, std::string& text) {
  std::string out;
  size_t done = 0;
  bool found = false, moved = false;
  regex.ForEachMatch(text, [&](size_t begin, size_t end) {
    if (!found) out.reserve(text.size() + text.size() / 2);
    found = true;
    if (begin == 0 && end > 0) {
      size_t first = 0;
      NextCodePoint(text, first);
      moved = first < end || content.empty();
    }
    out.append(text, done, begin - done);
    out += content;
    done = end;
  });
  if (!found) return false;
  out.append(text, done);
  text = std::move(out);
  return moved;
}

}  // namespace am::text

// Recipe::ToYaml: a recipe printed so that it loads to the same recipe. Scalars keep their
// spelling, so environment tokens stay tokens; text that YAML would read otherwise goes into double
// quotes.
#include <cctype>

#include "launcher/recipe/recipe.h"
#include "launcher/recipe/secret.h"

namespace am::recipe {
namespace {

bool IsPlainSafe(std::string_view text) {
  if (text.empty()) return false;
  if (std::isspace(static_cast<unsigned char>(text.front())) ||
      std::isspace(static_cast<unsigned char>(text.back()))) {
    return false;
  }
  if (std::string_view("!&*?|>@`\"'%#{}[],:").find(text.front()) != std::string_view::npos) {
    return false;
  }
  if (text.front() == '-' && (text.size() == 1 || text[1] == ' ' || text.starts_with("---"))) {
    return false;
  }
  if (text.starts_with("...") || text.back() == ':') return false;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned char c = text[i];
    if (c < 0x20 || c == 0x7f) return false;
    if (c == ':' && i + 1 < text.size() && text[i + 1] == ' ') return false;
    if (c == '#' && text[i - 1] == ' ') return false;
  }
  return true;
}

std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string Scalar(const std::string& key, const Value& value) {
  bool token = value.text.find('$') != std::string::npos;
  bool text = std::holds_alternative<std::string>(value.data);
  if (text && !token && (IsSecretKey(key) || HoldsSecret(value.text))) {
    return Quoted(std::string(kStars));
  }
  if (value.text.empty() && !value.quoted) return "null";
  return value.quoted || !IsPlainSafe(value.text) ? Quoted(value.text) : value.text;
}

void Write(const std::string& key, const Value& value, int indent, std::string& out) {
  std::string margin(static_cast<size_t>(indent), ' ');
  if (const Map* map = value.map(); map && !map->empty()) {
    out += "\n";
    for (const Entry& entry : *map) {
      out += margin + (IsPlainSafe(entry.key) ? entry.key : Quoted(entry.key)) + ":";
      Write(entry.key, entry.value, indent + 2, out);
    }
  } else if (const List* list = value.list(); list && !list->empty()) {
    out += "\n";
    for (const Value& item : *list) {
      out += margin + "-";
      Write(key, item, indent + 2, out);
    }
  } else if (value.map()) {
    out += " {}\n";
  } else if (value.list()) {
    out += " []\n";
  } else {
    out.append(" ").append(Scalar(key, value)).append("\n");
  }
}

}  // namespace

std::string Recipe::ToYaml() const {
  std::string out;
  Write("", root_, 0, out);
  return out.empty() || out.front() != '\n' ? out : out.substr(1);
}

}  // namespace am::recipe

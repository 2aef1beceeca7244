#include "launcher/recipe/yaml_text.h"

#include <cctype>
#include <string_view>
#include <utility>

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

class Writer {
 public:
  // `line` is what stands before the value.
  void Write(const std::string& line, const std::string& path, const std::string& key,
             const Value& value, size_t indent) {
    std::string margin(indent, ' ');
    if (const Map* map = value.map(); map && !map->empty()) {
      if (!path.empty()) lines_.push_back({line, path});
      for (const Entry& entry : *map) {
        std::string name = IsPlainSafe(entry.key) ? entry.key : Quoted(entry.key);
        Write(margin + name + ":", path.empty() ? entry.key : path + "." + entry.key, entry.key,
              entry.value, indent + 2);
      }
    } else if (const List* list = value.list(); list && !list->empty()) {
      lines_.push_back({line, path});
      for (size_t i = 0; i < list->size(); ++i) {
        Write(margin + "-", path + "." + std::to_string(i), key, (*list)[i], indent + 2);
      }
    } else {
      std::string text = value.map() ? "{}" : value.list() ? "[]" : Scalar(key, value);
      lines_.push_back({line + " " + text, path, &value});
    }
  }

  std::vector<YamlLine> Take() { return std::move(lines_); }

 private:
  std::vector<YamlLine> lines_;
};

}  // namespace

std::vector<YamlLine> YamlLines(const Value& root) {
  Writer writer;
  writer.Write("", "", "", root, 0);
  return writer.Take();
}

std::string Recipe::ToYaml() const {
  std::string out;
  for (const YamlLine& line : YamlLines(root_)) out += line.text + "\n";
  return out;
}

}  // namespace am::recipe

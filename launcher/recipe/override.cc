#include "launcher/recipe/override.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "launcher/recipe/scalar.h"
#include "launcher/recipe/schema.h"
#include "launcher/recipe/secret.h"
#include "launcher/recipe/suggest.h"
#include "launcher/recipe/syntax.h"

namespace am::recipe {
namespace {

std::string_view FirstPart(std::string_view dotted) {
  return dotted.substr(0, dotted.find_first_of(".="));
}

std::string WithoutDashes(std::string_view argument) {
  size_t at = argument.find_first_not_of('-');
  return std::string(at == std::string_view::npos ? "" : argument.substr(at));
}

// A place sets every node below it: errors inside an override point to the override.
void SetPlace(Node& node, const Place& place) {
  node.place = place;
  for (Node& item : node.items) SetPlace(item, place);
  for (NodeEntry& entry : node.entries) {
    entry.place = place;
    SetPlace(entry.value, place);
  }
}

// Lists, maps and quoted text are YAML; all else is the text as it stands, colons and hashes
// included.
std::optional<Node> ParseValue(const Override& override, const Place& place, Diagnostics& out) {
  std::string_view text = override.value;
  size_t first = text.find_first_not_of(' ');
  text.remove_prefix(first == std::string_view::npos ? text.size() : first);
  bool yaml = !text.empty() && std::string_view("[{\"'").find(text.front()) != std::string::npos;
  if (!yaml) return Node{.place = place, .text = std::string(text)};
  Diagnostics problems;
  std::optional<Node> node = ParseDocument(text, place.file, problems);
  if (!node) {
    out.push_back({.place = place,
                   .key = override.key,
                   .message = "the value cannot be read: " + problems.front().message,
                   .hint = "put it in quotes that the shell leaves alone"});
    return std::nullopt;
  }
  SetPlace(*node, place);
  return node;
}

std::optional<size_t> ParseIndex(std::string_view text) {
  if (text.empty() || text.size() > 6 ||
      !std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; })) {
    return std::nullopt;
  }
  return std::stoul(std::string(text));
}

}  // namespace

bool NamesARecipeSection(std::string_view dotted) {
  std::string_view first = FirstPart(dotted);
  if (dotted.find('.') == std::string_view::npos && first.ends_with('-')) first.remove_suffix(1);
  return !first.empty() && FindKey(kRecipeSchema, nullptr, first) != nullptr;
}

absl::StatusOr<std::vector<Override>> ParseOverrides(std::span<const std::string> arguments) {
  std::vector<Override> overrides;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    std::string name = WithoutDashes(argument);
    if (InvalidUtf8(argument)) {
      return absl::InvalidArgumentError("an argument that is not UTF-8");
    }
    bool dashed = argument.starts_with("--");
    size_t equals = name.find('=');
    std::string_view key = std::string_view(name).substr(0, equals);
    if (!NamesARecipeSection(key) || (!dashed && equals == std::string::npos) ||
        key.find_first_of(" \t\n") != std::string_view::npos) {
      std::vector<std::string_view> known = KnownKeys(kRecipeSchema, nullptr);
      std::string_view near = Nearest(FirstPart(name), known);
      return absl::InvalidArgumentError(absl::StrCat(
          HoldsSecret(argument) ? std::string(FirstPart(argument)) : argument, ": ",
          dashed ? "no option and no section of a recipe" : "an argument that is not expected",
          near.empty() ? "" : absl::StrCat("; did you mean --", std::string(near), "?")));
    }
    Override override{.key = std::string(key)};
    if (equals != std::string::npos) {
      override.value = name.substr(equals + 1);
    } else if (override.key.ends_with('-')) {
      override.key.pop_back();
      override.remove = true;
    } else if (i + 1 < arguments.size() && !arguments[i + 1].starts_with("--")) {
      override.value = arguments[++i];
      if (InvalidUtf8(override.value)) {
        return absl::InvalidArgumentError(
            absl::StrCat("--", override.key, ": a value that is not UTF-8"));
      }
    } else {
      override.value = "true";
    }
    bool secret = IsSecretKey(override.key) || HoldsSecret(override.value);
    override.text = override.remove ? absl::StrCat("--", override.key, "-")
                                    : absl::StrCat("--", override.key, "=",
                                                   secret ? std::string(kStars) : override.value);
    overrides.push_back(std::move(override));
  }
  return overrides;
}

void ApplyOverride(const Override& override, Node& root, Diagnostics& out) {
  Place place{.file = override.text};
  auto refuse = [&](std::string message, std::string hint = "") {
    out.push_back({.place = place, .key = override.key, .message = message, .hint = hint});
  };
  std::optional<Node> value;
  if (!override.remove) {
    value = ParseValue(override, place, out);
    if (!value) return;
  }
  std::vector<std::string_view> parts = Split(override.key, '.');
  if (parts.size() > static_cast<size_t>(kMaxDepth)) return refuse("has too many parts");
  Node* node = &root;
  std::string walked;
  for (size_t i = 0; i < parts.size(); ++i) {
    bool last = i + 1 == parts.size();
    if (parts[i].empty()) return refuse("an empty part in the name");
    if (node->kind == Node::Kind::kList) {
      std::optional<size_t> index = ParseIndex(parts[i]);
      size_t size = node->items.size();
      if (!index || *index > size || (*index == size && (override.remove || !last))) {
        return refuse(absl::StrCat(walked, " is a list of ", size, " elements; ",
                                   std::string(parts[i]), " is none of them"),
                      absl::StrCat("use 0 to ", size, ", the last of which appends"));
      }
      if (last && override.remove) {
        node->items.erase(node->items.begin() + static_cast<long>(*index));
        return;
      }
      if (*index == size) node->items.push_back({.place = place});
      node = &node->items[*index];
    } else {
      if (node->IsPlainNull()) *node = Node{.kind = Node::Kind::kMap, .place = place};
      if (node->kind != Node::Kind::kMap) {
        return refuse(walked + " is a single value, not a section", "override it as a whole");
      }
      auto found = std::find_if(node->entries.begin(), node->entries.end(),
                                [&](const NodeEntry& entry) { return entry.key == parts[i]; });
      if (override.remove && (last || found == node->entries.end())) {
        if (found == node->entries.end()) {
          refuse("there is nothing to remove");
          out.back().severity = Severity::kWarning;
        } else {
          node->entries.erase(found);
        }
        return;
      }
      if (found == node->entries.end()) {
        node->entries.push_back(
            {.key = std::string(parts[i]), .place = place, .value = {.place = place}});
        found = node->entries.end() - 1;
      } else if (last) {
        found->place = place;
      }
      node = &found->value;
    }
    absl::StrAppend(&walked, walked.empty() ? "" : ".", std::string(parts[i]));
  }
  *node = std::move(*value);
}

}  // namespace am::recipe

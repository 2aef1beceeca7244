#include "launcher/recipe/explain.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <set>
#include <utility>

#include "launcher/recipe/scalar.h"
#include "launcher/recipe/schema.h"
#include "launcher/recipe/suggest.h"

namespace am::recipe {
namespace {

using nlohmann::json;

constexpr size_t kDepth = 8;        // of sections within each other
constexpr size_t kMostSimilar = 5;  // keys that are named
constexpr size_t kNameWidth = 30;

std::string Text(std::string_view text) { return std::string(text); }

std::string SupportText(Support support, std::string_view neutral, std::string_view instead) {
  std::string text;
  switch (support) {
    case Support::kHonoured:
      return "honoured";
    case Support::kNoEffect:
      return "accepted; results are the same either way";
    case Support::kIgnored:
      text = "accepted with a warning, not done";
      break;
    case Support::kNotTrainable:
      text = "understood and planned for, refused by amctl run";
      if (!neutral.empty()) absl::StrAppend(&text, " but for ", Text(neutral));
      break;
  }
  if (!instead.empty()) absl::StrAppend(&text, "; ", Text(instead));
  return text;
}

std::string_view SupportName(Support support) {
  switch (support) {
    case Support::kHonoured:
      return "honoured";
    case Support::kNoEffect:
      return "no_effect";
    case Support::kIgnored:
      return "ignored";
    case Support::kNotTrainable:
      return "not_trainable";
  }
  return "";
}

std::string_view TypeName(Type type) {
  switch (type) {
    case Type::kBool:
      return "bool";
    case Type::kInt:
      return "int";
    case Type::kFloat:
      return "float";
    case Type::kText:
      return "text";
    case Type::kDtype:
      return "dtype";
    case Type::kChoice:
      return "choice";
    case Type::kTexts:
      return "texts";
    case Type::kFloats:
      return "floats";
    case Type::kInts:
      return "ints";
    case Type::kSlurmTime:
      return "slurm_time";
    case Type::kFree:
      return "any";
    case Type::kSection:
    case Type::kPart:
      return "section";
    case Type::kSections:
      return "sections";
  }
  return "";
}

std::string TypeText(const Key& key) {
  std::string text = key.type == Type::kFree ? "anything" : Expectation(key);
  if (!key.unit.empty()) absl::StrAppend(&text, " (", Text(key.unit), ")");
  return text;
}

std::string Padded(std::string_view text, size_t width) {
  return Text(text) + std::string(text.size() < width ? width - text.size() : 1, ' ');
}

// One line a key: name, default, meaning. Keys of parts under the part's name.
void ListKeys(const Section& section, std::string& out) {
  const Part* part = nullptr;
  out += "\nKeys:\n";
  for (const Declaration& declaration : DeclarationsOf(section)) {
    if (declaration.part != part) {
      part = declaration.part;
      absl::StrAppend(&out, "\nWith _target_ ", Text(Split(part->targets, ' ').front()), " (",
                      Text(part->name), "):\n");
    }
    const Key& key = *declaration.key;
    absl::StrAppend(&out, "  ", Padded(key.name, kNameWidth), Text(key.means));
    if (!key.fallback.empty()) absl::StrAppend(&out, " [", Text(key.fallback), "]");
    out += "\n";
  }
  if (section.open) out += "  Further keys are accepted as they stand.\n";
}

void ListParts(const Section& section, std::string& out) {
  if (!HasParts(section)) return;
  out += "\n_target_ may be:\n";
  for (const Section* table = &section; table; table = table->also) {
    for (const Part& part : table->parts) {
      for (std::string_view target : Split(part.targets, ' ')) {
        absl::StrAppend(&out, "  ", Text(target), "\n");
      }
      if (part.support == Support::kNotTrainable) out += "      not trainable yet\n";
      if (part.name == section.default_part) out += "      the default\n";
    }
  }
}

json ToJson(const Key& key, Support support) {
  json out = {{"name", Text(key.name)},
              {"type", Text(TypeName(key.type))},
              {"nullable", key.nullable},
              {"means", Text(key.means)},
              {"support", Text(SupportName(support))}};
  Value fallback = FallbackOf(key);
  out["default"] = recipe::ToJson(fallback);
  if (!key.unit.empty()) out["unit"] = Text(key.unit);
  if (!key.instead.empty()) out["instead"] = Text(key.instead);
  if (!key.choices.empty()) {
    for (std::string_view name : ChoiceNames(key)) out["choices"].push_back(Text(name));
  }
  if (key.least == std::numeric_limits<double>::min()) {
    out["above"] = 0;
  } else if (key.least != -kAny) {
    out["least"] = key.least;
  }
  if (key.most != kAny) out["most"] = key.most;
  return out;
}

json ToJson(const Section& section) {
  json out = {{"open", section.open}, {"keys", json::array()}, {"parts", json::array()}};
  for (const Declaration& declaration : DeclarationsOf(section)) {
    json key = ToJson(*declaration.key, declaration.key->support);
    if (declaration.part) key["part"] = Text(declaration.part->name);
    out["keys"].push_back(std::move(key));
  }
  for (const Section* table = &section; table; table = table->also) {
    for (const Part& part : table->parts) {
      json targets = json::array();
      for (std::string_view target : Split(part.targets, ' ')) targets.push_back(Text(target));
      out["parts"].push_back({{"name", Text(part.name)},
                              {"targets", targets},
                              {"support", Text(SupportName(part.support))},
                              {"default", part.name == section.default_part}});
    }
  }
  return out;
}

// Every dotted key there is, each section once on a way down.
void EachName(const Section& section, const std::string& path, size_t depth,
              std::set<std::string>& out) {
  if (depth == 0) return;
  for (const Declaration& declaration : DeclarationsOf(section)) {
    const Key& key = *declaration.key;
    if (key.name == "*" || key.name == "_target_") continue;
    std::string name = path + Text(key.name);
    if (name.ends_with('*')) name.pop_back();
    if (out.insert(name).second && key.section) EachName(*key.section, name + ".", depth - 1, out);
  }
}

std::string Describe(const Key& key, Support support) {
  std::string out = absl::StrCat("  ", Text(key.means), "\n\n  type      ", TypeText(key),
                                 key.nullable ? ", or null" : "", "\n");
  if (!key.section) {
    absl::StrAppend(&out, "  default   ", key.fallback.empty() ? "none" : Text(key.fallback), "\n");
  }
  absl::StrAppend(&out, "  support   ", SupportText(support, key.neutral, key.instead), "\n");
  if (key.section) {
    ListParts(*key.section, out);
    ListKeys(*key.section, out);
  }
  return out;
}

}  // namespace

std::optional<std::string> ExplainText(std::string_view dotted) {
  std::string out;
  if (dotted.empty()) {
    out = "A recipe is a map of sections.\n";
    ListKeys(kRecipeSchema, out);
    return out;
  }
  std::vector<Declaration> found = FindDeclarations(dotted);
  if (found.empty()) return std::nullopt;
  // Parts that say the same share a paragraph.
  std::vector<std::pair<std::string, std::string>> paragraphs;  // text, targets
  for (const auto& [key, part, support] : found) {
    std::string text = Describe(*key, support);
    auto same = std::ranges::find(paragraphs, text, &std::pair<std::string, std::string>::first);
    if (same == paragraphs.end()) same = paragraphs.insert(same, {text, ""});
    if (part) {
      absl::StrAppend(&same->second, "\n  with _target_ ", Text(Split(part->targets, ' ').front()));
    }
  }
  for (const auto& [text, targets] : paragraphs) {
    absl::StrAppend(&out, out.empty() ? "" : "\n", Text(dotted), targets, "\n", text);
  }
  return out;
}

std::optional<json> ExplainJson(std::string_view dotted) {
  if (dotted.empty()) {
    json out = ToJson(kRecipeSchema);
    out["key"] = "";
    return out;
  }
  std::vector<Declaration> found = FindDeclarations(dotted);
  if (found.empty()) return std::nullopt;
  json all = json::array();
  for (const auto& [key, part, support] : found) {
    json one = ToJson(*key, support);
    one["part"] = part ? json(Text(part->name)) : json();
    if (key->section) one.update(ToJson(*key->section));
    all.push_back(std::move(one));
  }
  return json{{"key", Text(dotted)}, {"declarations", all}};
}

std::vector<std::string> KeysLike(std::string_view dotted) {
  std::set<std::string> names;
  EachName(kRecipeSchema, "", kDepth, names);
  auto last = [](std::string_view name) { return name.substr(name.rfind('.') + 1); };
  std::vector<std::pair<int, std::string>> scored;
  // Of that name elsewhere, short paths first; only where there is none, those spelt alike.
  for (const std::string& name : names) {
    if (last(name) == last(dotted)) {
      scored.push_back({static_cast<int>(std::ranges::count(name, '.')), name});
    }
  }
  if (scored.empty()) {
    int limit = std::max(1, static_cast<int>(std::min<size_t>(dotted.size(), 60)) / 4);
    for (const std::string& name : names) {
      int distance = EditDistance(dotted.substr(0, 100), name);
      if (distance > limit) continue;
      if (distance < limit) scored.clear();  // the nearest alone
      limit = distance;
      scored.push_back({distance, name});
    }
  }
  std::ranges::sort(scored);
  std::vector<std::string> nearest;
  for (auto& [distance, name] : scored) {
    if (nearest.size() < kMostSimilar) nearest.push_back(std::move(name));
  }
  return nearest;
}

}  // namespace am::recipe

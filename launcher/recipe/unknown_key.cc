#include "launcher/recipe/unknown_key.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "launcher/recipe/suggest.h"
#include "launcher/recipe/target.h"

namespace am::recipe {
namespace {

// Where keys that stand in the wrong section may belong: sections with names of their own.
constexpr std::string_view kTypedSections[] = {
    "step_scheduler", "distributed",     "distributed.pipeline", "optimizer", "lr_scheduler",
    "checkpoint",     "packed_sequence", "dataloader",           "dist_env",  "clip_grad_norm",
    "peft",           "benchmark",       "quantization",         "restart",   "elastic"};

// Names that other programs take for includes.
constexpr std::string_view kIncludes[] = {"defaults", "extends", "include", "includes",
                                          "_base_",   "inherit", "inherits"};

// Whatever the model section does not know is laid over config.json; keys of these hardly are.
constexpr std::string_view kTrainingSections[] = {"step_scheduler", "distributed", "lr_scheduler",
                                                  "checkpoint", "dataloader"};

constexpr std::pair<std::string_view, const char*> kInvisible[] = {
    {"\u00a0", "a no-break space (U+00A0)"},  {"\u200b", "a zero-width space (U+200B)"},
    {"\ufeff", "a byte order mark (U+FEFF)"}, {"\u3000", "an ideographic space (U+3000)"},
    {"\u202f", "a no-break space (U+202F)"},  {"\u2009", "a thin space (U+2009)"}};

template <typename Range>
bool Holds(const Range& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool DiffersInCaseAlone(const NodeEntry& a, const NodeEntry& b) {
  return a.key != b.key && absl::EqualsIgnoreCase(a.key, b.key);
}

const char* InvisibleCharacter(std::string_view text) {
  for (auto [character, name] : kInvisible) {
    if (text.find(character) != std::string_view::npos) return name;
  }
  return nullptr;
}

std::string Spelling(std::string_view name) {
  std::string plain(name);
  std::erase_if(plain, [](char c) { return c == '-' || c == '_'; });
  absl::AsciiStrToLower(&plain);
  return plain;
}

bool IsDotted(const MapContext& map, const NodeEntry& entry) {
  return map.path.empty() && entry.key.find('.') != std::string::npos;
}

// The section of a typed path such as "distributed.pipeline".
const Section* TypedSection(std::string_view path) {
  const Section* table = &kRecipeSchema;
  for (std::string_view name : Split(path, '.')) {
    const Key* key = FindKey(*table, nullptr, name);
    table = key ? key->section : nullptr;
    if (!table) return nullptr;
  }
  return table;
}

// The section that has a key of exactly this name: "" for the top of the recipe. Nothing where
// several have it.
std::optional<std::string> FindElsewhere(const MapContext& map, std::string_view name) {
  if (!map.is_recipe || name == "_target_" || name.starts_with("x-")) return std::nullopt;
  if (!map.path.empty()) {
    const Key* key = FindKey(kRecipeSchema, nullptr, name);
    if (key && key->name == name) return "";
  }
  std::optional<std::string> found;
  for (std::string_view path : kTypedSections) {
    const Section* section = path == map.path ? nullptr : TypedSection(path);
    if (!section) continue;
    const Key* key = FindKey(*section, FindPart(*section, section->default_part), name);
    if (!key || key->name != name) continue;
    if (found) return std::nullopt;
    found = path;
  }
  return found;
}

// A misspelling of a known key, where unknown keys would otherwise be taken as the user's own.
bool LooksKnown(const std::vector<std::string_view>& known, const NodeEntry& entry) {
  // `lr:1e-4`
  if (size_t colon = entry.key.find(':'); colon != std::string::npos) {
    bool valueless = entry.value.text.empty() && entry.value.kind == Node::Kind::kScalar;
    return valueless && Holds(known, std::string_view(entry.key).substr(0, colon));
  }
  if (InvisibleCharacter(entry.key)) return true;
  std::string_view near = Nearest(entry.key, known);
  if (near.empty() || (near.front() == '_' && near != "_target_") || entry.key.size() < 2) {
    return false;
  }
  int limit = std::min<int>(2, static_cast<int>(entry.key.size()) / 4);
  return EditDistance(entry.key, near) <= std::max(1, limit);
}

// ---- refusals, each of one kind of mistake; nothing where it is none of that kind

struct Question {
  const MapContext& map;
  const NodeEntry& entry;
  std::string_view near;                 // the nearest of the missing names
  std::optional<std::string> elsewhere;  // the section that has it
};

using Answer = std::optional<UnknownKey>;

UnknownKey Refuse(const Question& q, std::string message, std::string hint,
                  std::string_view meant = "") {
  return {.refusal = Diagnostic{.place = q.entry.place,
                                .key = Join(q.map.path, q.entry.key),
                                .message = std::move(message),
                                .hint = std::move(hint)},
          .meant = std::string(meant)};
}

Answer Include(const Question& q) {
  if (!IsInclude(q.map, q.entry.key)) return std::nullopt;
  return Refuse(q, "recipes have no includes and no bases",
                "write the values out, or share them within the file with an anchor");
}

Answer Dotted(const Question& q) {
  if (!IsDotted(q.map, q.entry)) return std::nullopt;
  return Refuse(q, "a dotted key, which only overrides on the command line have",
                "write it as maps within each other");
}

// `lr:1e-4`
Answer NoBlankBehindColon(const Question& q) {
  size_t colon = q.entry.key.find(':');
  if (colon == std::string::npos || !q.entry.value.text.empty() || q.entry.value.quoted) {
    return std::nullopt;
  }
  std::string name = q.entry.key.substr(0, colon);
  if (!Holds(q.map.known, name)) return std::nullopt;
  UnknownKey unknown = Refuse(q, "no blank behind the colon", "write `key: value`", name);
  unknown.refusal->key = Join(q.map.path, name);
  unknown.refusal->place.column += static_cast<int>(colon);
  return unknown;
}

Answer Twin(const Question& q) {
  for (const NodeEntry& other : q.map.node.entries) {
    if (!DiffersInCaseAlone(other, q.entry) || !Holds(q.map.known, other.key)) continue;
    return Refuse(q,
                  absl::StrCat("unknown key: differs from ", other.key, " at ",
                               ToString(other.place), " in case alone"),
                  "remove one of the two");
  }
  return std::nullopt;
}

Answer Invisible(const Question& q) {
  const char* invisible = InvisibleCharacter(q.entry.key);
  if (!invisible) return std::nullopt;
  return Refuse(q, absl::StrCat("unknown key: ", invisible, " stands in it"),
                "write plain blanks and letters", q.near);
}

// `(0.9, 0.95)` within braces: what follows its comma is taken for a key. Said at its beginning.
Answer RestOfTuple(const Question& q) {
  if (!q.entry.key.ends_with(')') || !q.entry.value.text.empty()) return std::nullopt;
  const std::vector<NodeEntry>& all = q.map.node.entries;
  bool begun = std::any_of(all.begin(), all.end(), [](const NodeEntry& other) {
    return other.value.text.starts_with('(') && !other.value.text.ends_with(')');
  });
  return begun ? Answer(UnknownKey()) : std::nullopt;
}

// `lr 1e-4` and `lr=1e-4`
Answer NoColon(const Question& q) {
  const std::string& key = q.entry.key;
  size_t end = key.find_first_of(" =");
  if (end == std::string::npos || !q.entry.value.text.empty()) return std::nullopt;
  std::string name = key.substr(0, end);
  if (!Holds(q.map.missing, name)) return std::nullopt;
  size_t value = std::min(key.size(), key.find_first_not_of(" =", end));
  UnknownKey unknown = Refuse(q, "no colon behind the key",
                              absl::StrCat("write `", name, ": ", key.substr(value), "`"), name);
  unknown.refusal->key = Join(q.map.path, name);
  return unknown;
}

// The name that another program has for a key of this section, or of another one.
Answer Foreign(const Question& q) {
  std::string ours(OurName(q.entry.key));
  if (ours.empty() || q.elsewhere) return std::nullopt;
  if (Holds(q.map.known, ours)) {
    const NodeEntry* given = q.map.node.Find(ours);
    std::string where = given ? absl::StrCat(", which stands at ", ToString(given->place)) : "";
    return Refuse(q, "unknown key", absl::StrCat("it is called ", ours, " here", where),
                  given ? "" : ours);
  }
  std::optional<std::string> section = FindElsewhere(q.map, ours);
  if (!section || section->empty()) return std::nullopt;
  return Refuse(q, "unknown key", absl::StrCat("write it as ", *section, ".", ours));
}

Answer OfAnotherSection(const Question& q) {
  if (!q.elsewhere) return std::nullopt;
  bool top = q.elsewhere->empty();
  bool misspelt = !q.near.empty() && EditDistance(Spelling(q.entry.key), Spelling(q.near)) <= 1;
  if (!misspelt) {
    UnknownKey unknown =
        top ? Refuse(q, "unknown key here: it is a section of its own",
                     "begin it in the first column")
            : Refuse(q, absl::StrCat("unknown key here: it belongs to ", *q.elsewhere),
                     absl::StrCat("move it below ", *q.elsewhere, ":"));
    unknown.belongs_to = q.elsewhere;
    return unknown;
  }
  if (Spelling(q.entry.key) == Spelling(q.near)) return std::nullopt;
  // Both may have been meant.
  return Refuse(
      q, "unknown key here",
      absl::StrCat("did you mean ", std::string(q.near), "? ", q.entry.key, " is ",
                   top ? "a section of its own" : absl::StrCat("a key of ", *q.elsewhere)),
      q.near);
}

Answer OfAnotherPart(const Question& q) {
  const Part* other = q.near.empty() ? PartWith(q.map.section, q.entry.key) : nullptr;
  if (!other) return std::nullopt;
  std::string target(Split(other->targets, ' ').front());
  return Refuse(q, absl::StrCat("unknown key here: it belongs to the _target_ ", target),
                "name that one, or remove the key");
}

// A misspelling of a key that the map has already.
Answer OfGivenKey(const Question& q) {
  if (!q.near.empty() && EditDistance(q.entry.key, q.near) <= 1) return std::nullopt;
  for (const NodeEntry& other : q.map.node.entries) {
    if (!Holds(q.map.known, other.key) || EditDistance(q.entry.key, other.key) > 1) continue;
    return Refuse(
        q, "unknown key",
        absl::StrCat("did you mean ", other.key, "? it stands at ", ToString(other.place)));
  }
  return std::nullopt;
}

// The likeliest first.
constexpr Answer (*kMistakes[])(const Question&) = {
    Include, Dotted,  NoBlankBehindColon, Twin,          Invisible, RestOfTuple,
    NoColon, Foreign, OfAnotherSection,   OfAnotherPart, OfGivenKey};

}  // namespace

std::string Join(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : path + "." + std::string(name);
}

bool IsInclude(const MapContext& map, std::string_view key) {
  return map.is_recipe && map.path.empty() && Holds(kIncludes, key);
}

bool IsOwn(const MapContext& map, const NodeEntry& entry) {
  bool top = map.path.empty();
  if (!map.open || IsInclude(map, entry.key) || IsDotted(map, entry)) return false;
  if (!map.refused_target && LooksKnown(top ? map.known : map.missing, entry)) return false;
  return !top || (!FindElsewhere(map, entry.key) && OurName(entry.key).empty());
}

std::optional<Diagnostic> TwinRemark(const Node& map, const NodeEntry& entry,
                                     const std::string& path) {
  for (const NodeEntry& other : map.entries) {
    if (&other == &entry) break;  // the later of the two is named
    if (!DiffersInCaseAlone(other, entry)) continue;
    return Diagnostic{.severity = Severity::kWarning,
                      .place = entry.place,
                      .key = Join(path, entry.key),
                      .message = absl::StrCat("differs from ", other.key, " at ",
                                              ToString(other.place), " in case alone"),
                      .hint = "remove one of the two"};
  }
  return std::nullopt;
}

Diagnostics RemarksOnOwn(const MapContext& map, const NodeEntry& entry) {
  Diagnostics remarks;
  auto warn = [&](std::string message, std::string hint) {
    remarks.push_back({.severity = Severity::kWarning,
                       .place = entry.place,
                       .key = Join(map.path, entry.key),
                       .message = std::move(message),
                       .hint = std::move(hint)});
  };
  if (map.path == "model") {
    std::optional<std::string> section = FindElsewhere(map, entry.key);
    if (section && Holds(kTrainingSections, *section)) {
      warn("is laid over the model's config.json",
           absl::StrCat("if it is of the training, move it below ", *section, ":"));
    }
  }
  if (auto twin = TwinRemark(map.node, entry, map.path)) remarks.push_back(*std::move(twin));
  if (map.path.empty()) {
    warn("an unknown section, left alone",
         absl::StrCat("call it x-", entry.key, " if it is yours"));
  }
  return remarks;
}

UnknownKey JudgeUnknownKey(const MapContext& map, const NodeEntry& entry) {
  Question question{.map = map,
                    .entry = entry,
                    .near = Nearest(entry.key, map.missing),
                    .elsewhere = FindElsewhere(map, entry.key)};
  for (auto mistake : kMistakes) {
    if (Answer answer = mistake(question)) return *std::move(answer);
  }
  bool nothing_left = question.near.empty() && map.missing.empty();
  return Refuse(question, "unknown key",
                nothing_left ? "remove it" : Suggest(entry.key, map.missing), question.near);
}

}  // namespace am::recipe

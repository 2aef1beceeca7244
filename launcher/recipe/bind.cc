#include "launcher/recipe/bind.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "launcher/recipe/scalar.h"
#include "launcher/recipe/secret.h"
#include "launcher/recipe/slurm_time.h"
#include "launcher/recipe/suggest.h"
#include "launcher/recipe/syntax.h"

namespace am::recipe {
namespace {

// Of targets: a hundred for each letter of the class name that differs, one for each of the whole.
constexpr int kNotTrainablePenalty = 200;
constexpr int kFarTarget = 700;
constexpr size_t kShownText = 80;  // of a value, in a message

std::string Join(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : path + "." + std::string(name);
}

constexpr std::string_view kTargetName[] = {"_target_"};

// Where keys that stand in the wrong section may belong: sections with names of their own.
constexpr std::string_view kTypedSections[] = {
    "step_scheduler", "distributed",     "distributed.pipeline", "optimizer", "lr_scheduler",
    "checkpoint",     "packed_sequence", "dataloader",           "dist_env",  "clip_grad_norm",
    "peft",           "benchmark",       "quantization",         "restart",   "elastic"};

std::string_view KindOf(const Node& node) {
  return node.kind == Node::Kind::kList ? "a list" : "a map";
}

// Class names say more than the modules they lie in; one that begins with what was written is as
// good as it.
int TargetDistance(std::string_view wanted, std::string_view known) {
  wanted = wanted.substr(0, 200);
  std::string_view wanted_class = wanted.substr(wanted.find_last_of(".:") + 1);
  std::string_view known_class = known.substr(known.rfind('.') + 1);
  if (wanted_class.size() > 3 && known_class.starts_with(wanted_class)) return 0;
  return 100 * EditDistance(wanted_class, known_class) + EditDistance(wanted, known);
}

// The nearest target of a section's parts, and its part.
std::pair<std::string_view, const Part*> FindNearest(const Section& section,
                                                     std::string_view wanted) {
  std::pair<std::string_view, const Part*> best;
  int least = kFarTarget;
  for (const Section* table = &section; table; table = table->also) {
    for (const Part& part : table->parts) {
      for (std::string_view target : Split(part.targets, ' ')) {
        // Of two that are as near, one that can be trained.
        bool honoured = part.support == Support::kHonoured;
        int distance = TargetDistance(wanted, target) + (honoured ? 0 : kNotTrainablePenalty);
        if (target != "*" && distance < least) least = distance, best = {target, &part};
      }
    }
  }
  return best;
}

class Binder {
 public:
  Binder(const BindOptions& options, bool is_recipe, Binding& out)
      : options_(options), is_recipe_(is_recipe), out_(out) {}

  Value BindMap(const Section& section, const Node& node, const std::string& path) {
    Value value{.data = Map(), .place = node.place};
    if (node.kind != Node::Kind::kMap) {
      Report(node.place, path, absl::StrCat("expected a map of keys, got ", Shown(node, path)),
             OneKeyALine(node));
      value.broken = true;
      return value;
    }
    Map& map = std::get<Map>(value.data);
    const Part* part = nullptr;
    bool implied = options_.implied_parts && HasParts(section) && !node.Find("_target_");
    bool known_part = true;
    if (HasParts(section) && !implied) {
      const NodeEntry* target = FindTarget(section, node);
      bool given = target && target->value.kind == Node::Kind::kScalar;
      part = FindPart(section, given ? std::string_view(target->value.text) : section.default_part);
      known_part = part != nullptr;
      if (!part) {
        RefuseTarget(section, target->value, Join(path, "_target_"));
      } else if (given) {
        NotePart(*part, target->value, Join(path, "_target_"));
      }
    }
    bool open = section.open || (part && part->open) || !known_part;
    std::vector<std::string_view> known =
        implied ? KnownKeysOfAllParts(section) : KnownKeys(section, part);
    std::vector<std::string_view> missing = Absent(known, node);
    for (const NodeEntry& entry : node.entries) {
      std::string key_path = Join(path, entry.key);
      if (entry.key.empty()) continue;  // refused by the reader
      if (const Key* key =
              implied ? FindKeyOfAnyPart(section, entry.key) : FindKey(section, part, entry.key)) {
        size_t ignored = out_.ignored.size(), not_trainable = out_.not_trainable.size();
        bool outer = std::exchange(unused_, unused_ || key->support == Support::kIgnored ||
                                                key->support == Support::kNoEffect);
        map.push_back({entry.key, entry.place, BindKey(*key, entry.value, key_path)});
        if (node.Find(entry.key) != &entry) MarkBroken(map, entry.key);  // it stands twice
        unused_ = outer;
        NoteSupport(*key, map.back().value, key_path, ignored, not_trainable);
      } else if (path.empty() && IsInclude(entry.key)) {
        Report(entry.place, entry.key, "recipes have no includes and no bases",
               "write the values out, or share them within the file with an anchor");
      } else if (path.empty() && entry.key.find('.') != std::string::npos) {
        Report(entry.place, entry.key,
               "a dotted key, which only overrides on the command line have",
               "write it as maps within each other");
      } else if (open && !(known_part && LooksKnown(missing, entry)) &&
                 !(path.empty() && FindElsewhere(entry.key, path))) {
        map.push_back({entry.key, entry.place, BindFree(entry.value, key_path)});
        NoteTwin(node, entry, key_path);
        if (path.empty()) WarnOfSection(entry);
      } else {
        RefuseKey(node, entry, path, known, missing, map);
      }
    }
    return value;
  }

 private:
  void Report(const Place& place, const std::string& path, std::string message,
              std::string hint = "", Severity severity = Severity::kError) {
    out_.diagnostics.push_back({.severity = severity,
                                .place = place,
                                .key = path,
                                .message = std::move(message),
                                .hint = std::move(hint)});
  }

  void ReportMismatch(const Key& key, const Node& node, const std::string& path,
                      std::string hint = "") {
    Report(node.place, path,
           absl::StrCat("expected ", Expectation(key), ", got ", Shown(node, path)),
           std::move(hint));
  }

  // ---- keys that are not known

  // The known names that a map does not have yet: what a misspelt one may have been meant to be.
  static std::vector<std::string_view> Absent(const std::vector<std::string_view>& known,
                                              const Node& node) {
    std::vector<std::string_view> absent;
    for (std::string_view name : known) {
      if (!node.Find(name)) absent.push_back(name);
    }
    return absent;
  }

  static void MarkBroken(Map& map, std::string_view key) {
    for (Entry& entry : map) {
      if (entry.key == key) entry.value.broken = true;
    }
  }

  // `_target_`, misspelt or not: the keys beside it are those of its part.
  static const NodeEntry* FindTarget(const Section& section, const Node& node) {
    if (const NodeEntry* target = node.Find("_target_")) return target;
    for (const NodeEntry& entry : node.entries) {
      if (entry.key.find("target") == std::string::npos &&
          EditDistance(entry.key.substr(0, 20), "_target_") > 2) {
        continue;
      }
      bool scalar = entry.value.kind == Node::Kind::kScalar;
      if (scalar && FindPart(section, entry.value.text) && Nearest(entry.key, kTargetName) != "") {
        return &entry;
      }
    }
    return nullptr;
  }

  // Names that other programs take for includes.
  static bool IsInclude(std::string_view key) {
    for (std::string_view name :
         {"defaults", "extends", "include", "includes", "_base_", "inherit", "inherits"}) {
      if (key == name) return true;
    }
    return false;
  }

  // A key of the map that differs in case alone.
  static const NodeEntry* FindTwin(const Node& node, const NodeEntry& entry) {
    for (const NodeEntry& other : node.entries) {
      if (&other == &entry) return nullptr;  // the later of the two is named
      if (other.key != entry.key && absl::EqualsIgnoreCase(other.key, entry.key)) return &other;
    }
    return nullptr;
  }

  void NoteTwin(const Node& node, const NodeEntry& entry, const std::string& key_path) {
    const NodeEntry* twin = FindTwin(node, entry);
    if (!twin) return;
    Report(
        entry.place, key_path,
        absl::StrCat("differs from ", twin->key, " at ", ToString(twin->place), " in case alone"),
        "remove one of the two", Severity::kWarning);
  }

  void RefuseKey(const Node& node, const NodeEntry& entry, const std::string& path,
                 const std::vector<std::string_view>& known,
                 const std::vector<std::string_view>& missing, Map& map) {
    std::string key_path = Join(path, entry.key);
    if (size_t colon = entry.key.find(':');
        colon != std::string::npos && entry.value.text.empty() && !entry.value.quoted &&
        std::find(known.begin(), known.end(), entry.key.substr(0, colon)) != known.end()) {
      Place place = entry.place;
      place.column += static_cast<int>(colon);
      Report(place, Join(path, entry.key.substr(0, colon)), "no blank behind the colon",
             "write `key: value`");
      return PushBroken(map, entry, entry.key.substr(0, colon));
    }
    for (const NodeEntry& other : node.entries) {
      bool twin = other.key != entry.key && absl::EqualsIgnoreCase(other.key, entry.key);
      if (!twin || std::find(known.begin(), known.end(), other.key) == known.end()) continue;
      Report(entry.place, key_path,
             absl::StrCat("unknown key: differs from ", other.key, " at ", ToString(other.place),
                          " in case alone"),
             "remove one of the two");
      return;
    }
    if (const char* invisible = InvisibleCharacter(entry.key)) {
      Report(entry.place, key_path, absl::StrCat("unknown key: ", invisible, " stands in it"),
             "write plain blanks and letters");
      if (auto near = Nearest(entry.key, missing); !near.empty()) PushBroken(map, entry, near);
      return;
    }
    std::string_view near = Nearest(entry.key, missing);
    if (near.empty() || EditDistance(entry.key, near) > 1) {
      if (std::optional<std::string> section = FindElsewhere(entry.key, path)) {
        Report(entry.place, key_path,
               section->empty() ? "unknown key here: it is a section of its own"
                                : absl::StrCat("unknown key here: it belongs to ", *section),
               section->empty() ? "begin it in the first column"
                                : absl::StrCat("move it below ", *section, ":"));
        out_.misplaced.push_back(*section);
        return;
      }
    }
    Report(entry.place, key_path, "unknown key",
           near.empty() && missing.empty() ? "remove it" : Suggest(entry.key, missing));
    if (!near.empty()) PushBroken(map, entry, near);
  }

  // What was probably meant is given, with a value that is not known: no rule judges by its
  // default.
  static void PushBroken(Map& map, const NodeEntry& entry, std::string_view meant) {
    map.push_back({std::string(meant), entry.place, {.place = entry.value.place, .broken = true}});
  }

  static const char* InvisibleCharacter(std::string_view text) {
    constexpr std::pair<std::string_view, const char*> kInvisible[] = {
        {"\u00a0", "a no-break space (U+00A0)"},  {"\u200b", "a zero-width space (U+200B)"},
        {"\ufeff", "a byte order mark (U+FEFF)"}, {"\u3000", "an ideographic space (U+3000)"},
        {"\u202f", "a no-break space (U+202F)"},  {"\u2009", "a thin space (U+2009)"}};
    for (auto [character, name] : kInvisible) {
      if (text.find(character) != std::string_view::npos) return name;
    }
    return nullptr;
  }

  // The section that has a key of exactly this name: "" for the top of the recipe. Nothing where
  // several have it, but for those that say the same.
  std::optional<std::string> FindElsewhere(std::string_view name, const std::string& path) const {
    if (!is_recipe_ || name == "_target_" || name.starts_with("x-")) return std::nullopt;
    if (!path.empty()) {
      const Key* key = FindKey(kRecipeSchema, nullptr, name);
      if (key && key->name == name) return "";
    }
    std::optional<std::string> found;
    for (std::string_view section : kTypedSections) {
      if (section == path) continue;
      const Key* root = FindKey(kRecipeSchema, nullptr, section.substr(0, section.find('.')));
      const Section* table = root ? root->section : nullptr;
      if (table && section.find('.') != std::string_view::npos) {
        const Key* nested = FindKey(*table, nullptr, section.substr(section.find('.') + 1));
        table = nested ? nested->section : nullptr;
      }
      if (!table) continue;
      const Part* part = FindPart(*table, table->default_part);
      const Key* key = FindKey(*table, part, name);
      if (!key || key->name != name) continue;
      if (found) return std::nullopt;
      found = section;
    }
    return found;
  }

  // `key value` or `key=value` where a map of keys is expected.
  static std::string OneKeyALine(const Node& node) {
    if (node.kind != Node::Kind::kScalar || node.quoted) return "";
    if (node.text.find('=') == std::string::npos && node.text.find(' ') == std::string::npos) {
      return "";
    }
    return "write `key: value`, one a line";
  }

  // A scalar for a message: as it was written, so that nothing of the environment is shown.
  static std::string Shown(const Node& node, const std::string& path) {
    if (node.kind != Node::Kind::kScalar) return std::string(KindOf(node));
    if (IsSecretKey(path) || HoldsSecret(node.text)) return std::string(kStars);
    std::string text = node.text.substr(0, kShownText) + (node.text.size() > kShownText ? "…" : "");
    return node.quoted || node.text.empty() || node.text.find(' ') != std::string::npos
               ? absl::StrCat("\"", text, "\"")
               : text;
  }

  Value BindKey(const Key& key, const Node& node, const std::string& path) {
    if (node.broken) return {.place = node.place, .broken = true};
    if (node.IsPlainNull() && !TakesNullWord(key, node.text)) {
      if (!key.nullable) {
        Report(node.place, path,
               absl::StrCat("expected ", Expectation(key), ", got nothing (null)"));
      }
      return {.place = node.place, .text = node.text, .broken = !key.nullable};
    }
    switch (key.type) {
      case Type::kSection:
        if (node.kind == Node::Kind::kScalar && !key.section->alone.empty()) {
          return BindKey(*FindKey(*key.section, nullptr, key.section->alone), node, path);
        }
        return BindMap(*key.section, node, path);
      case Type::kPart:
        return BindPart(key, node, path);
      case Type::kSections:
        return BindSections(key, node, path);
      case Type::kFree:
        return BindFree(node, path);
      case Type::kTexts:
      case Type::kFloats:
      case Type::kInts:
        return BindList(key, node, path);
      default:
        return BindScalar(key, key.type, node, path);
    }
  }

  // `lora_A_init: none` is text, `activation_checkpointing: none` a choice: words where null means
  // nothing.
  static bool TakesNullWord(const Key& key, const std::string& text) {
    bool word = text == "none" || text == "None" || text == "null";
    return word && !key.nullable && (key.type == Type::kText || key.type == Type::kChoice);
  }

  Value BindPart(const Key& key, const Node& node, const std::string& path) {
    if (node.kind == Node::Kind::kMap) return BindMap(*key.section, node, path);
    bool name = node.kind == Node::Kind::kScalar && !ParseFloat(node.text) && !ParseBool(node.text);
    if (!name) {
      ReportMismatch(key, node, path);
      return {.place = node.place, .broken = true};
    }
    Value value = BindScalar(key, Type::kText, node, path);
    const auto* target = std::get_if<std::string>(&value.data);
    if (!target || key.section->parts.empty()) return value;
    if (const Part* part = FindPart(*key.section, *target)) {
      NotePart(*part, node, path);
    } else {
      RefuseTarget(*key.section, node, path);
    }
    return value;
  }

  Value BindSections(const Key& key, const Node& node, const std::string& path) {
    Value value{.data = List(), .place = node.place};
    if (node.kind != Node::Kind::kList) ReportMismatch(key, node, path);
    for (size_t i = 0; i < node.items.size(); ++i) {
      const Node& item = node.items[i];
      std::string item_path = Join(path, std::to_string(i));
      bool alone = item.kind == Node::Kind::kScalar && !key.section->alone.empty();
      std::get<List>(value.data)
          .push_back(alone ? BindScalar(key, Type::kText, item, item_path)
                           : BindMap(*key.section, item, item_path));
    }
    return value;
  }

  Value BindList(const Key& key, const Node& node, const std::string& path) {
    Type item_type = key.type == Type::kTexts  ? Type::kText
                     : key.type == Type::kInts ? Type::kInt
                                               : Type::kFloat;
    if (node.kind == Node::Kind::kScalar) {
      if (std::optional<Node> list = PythonSequence(node); list && item_type != Type::kText) {
        return BindList(key, *list, path);
      }
      if (item_type == Type::kFloat) {
        ReportMismatch(key, node, path, "write [0.9, 0.999]");
        return {.place = node.place, .broken = true};
      }
      return BindScalar(key, item_type, node, path);
    }
    Value value{.data = List(), .place = node.place};
    if (node.kind == Node::Kind::kMap) {
      ReportMismatch(key, node, path);
      value.broken = true;
      return value;
    }
    for (size_t i = 0; i < node.items.size(); ++i) {
      Value item = BindScalar(key, item_type, node.items[i], Join(path, std::to_string(i)));
      value.broken = value.broken || item.broken;
      std::get<List>(value.data).push_back(std::move(item));
    }
    return value;
  }

  // `(0.9, 0.95)` or `0.9,0.95`, as Python and its users write it.
  static std::optional<Node> PythonSequence(const Node& node) {
    std::string_view text = node.text;
    if (text.starts_with('(') && text.ends_with(')')) text = text.substr(1, text.size() - 2);
    if (text.find(',') == std::string_view::npos) return std::nullopt;
    Node list{.kind = Node::Kind::kList, .place = node.place};
    for (std::string_view item : Split(text, ',')) {
      while (item.starts_with(' ')) item.remove_prefix(1);
      while (item.ends_with(' ')) item.remove_suffix(1);
      list.items.push_back({.place = node.place, .text = std::string(item)});
    }
    return list;
  }

  // The text of a scalar, expanded; nothing where a variable is unset.
  std::optional<std::string> Text(const Node& node, const std::string& path, Value& value) {
    if (node.text.find('$') == std::string::npos) return node.text;
    Expansion expansion = Expand(node.text, options_.environment);
    value.expanded = expansion.used;
    value.broken = !expansion.malformed.empty() || expansion.unset;
    if (!expansion.malformed.empty()) {
      if (!unused_) Report(node.place, path, expansion.malformed, expansion.hint);
      return std::nullopt;
    }
    if (InvalidUtf8(expansion.text)) {
      Report(node.place, path, "the environment holds a byte that is not UTF-8");
      return std::nullopt;
    }
    if (!expansion.unset) return expansion.text;
    if (unused_) return std::nullopt;
    std::string first(expansion.unset->substr(0, expansion.unset->find('.')));
    bool reference =
        first.size() < expansion.unset->size() && FindKey(kRecipeSchema, nullptr, first) != nullptr;
    Report(node.place, path,
           absl::StrCat("the environment variable ", *expansion.unset, " is not set"),
           reference
               ? "to repeat another value of the recipe, use an anchor: &name there, *name here"
               : absl::StrCat("export it, or write a default: ${", *expansion.unset, ",default}"),
           options_.unset_variable);
    return std::nullopt;
  }

  Value BindScalar(const Key& key, Type type, const Node& node, const std::string& path) {
    Value value{.place = node.place, .text = node.text, .quoted = node.quoted};
    value.broken = node.broken;
    if (node.broken) return value;
    if (node.kind != Node::Kind::kScalar) {
      ReportMismatch(key, node, path);
      value.broken = true;
      return value;
    }
    std::optional<std::string> text = Text(node, path, value);
    if (!text) return value;
    if (value.expanded && !node.quoted && key.nullable && IsNullWord(*text)) return value;
    switch (type) {
      case Type::kBool:
        if (auto parsed = ParseBool(*text)) value.data = *parsed;
        break;
      case Type::kInt:
        if (auto parsed = ParseInt(*text); parsed && InRange(key, static_cast<double>(*parsed))) {
          value.data = *parsed;
        }
        break;
      case Type::kFloat:
        if (auto parsed = ParseFloat(*text); parsed && InRange(key, *parsed)) value.data = *parsed;
        break;
      case Type::kDtype:
        if (auto parsed = ParseDtype(*text)) value.data = *parsed;
        break;
      case Type::kChoice:
        if (auto parsed = ParseChoice(key, *text)) value.data = *parsed;
        break;
      case Type::kSlurmTime:
        if (auto parsed = ParseSlurmTime(*text)) value.data = ToString(*parsed);
        break;
      default:
        value.data = *text;
        break;
    }
    if (value.is_null()) {
      value.broken = true;
      ReportMismatch(key, node, path, HintFor(key, type, *text, node, path));
    } else if (std::holds_alternative<std::string>(value.data) && !node.quoted) {
      NoteQuotes(node, path);
    }
    return value;
  }

  // What was probably meant by a scalar that is of another type.
  static std::string HintFor(const Key& key, Type type, const std::string& text, const Node& node,
                             const std::string& path) {
    if (type == Type::kSlurmTime) return SlurmTimeHint(text);
    if (type == Type::kChoice) {
      std::string_view near = Nearest(text, ChoiceNames(key));
      return near.empty() ? "" : absl::StrCat("did you mean ", std::string(near), "?");
    }
    if (text != node.text || IsSecretKey(path) || HoldsSecret(text)) return "";  // never shown
    if (size_t hash = text.find('#'); hash != std::string::npos && hash > 0) {
      return "a comment needs a blank before its #";
    }
    if (text.find("\u2212") != std::string::npos || text.find("\u2013") != std::string::npos) {
      return "write the minus sign as -";
    }
    if (type == Type::kBool && text.size() == 1 &&
        std::string_view("yYtT1nNfF0").find(text.front()) != std::string_view::npos) {
      bool yes = std::string_view("yYtT1").find(text.front()) != std::string_view::npos;
      return yes ? "write true" : "write false";
    }
    if (type != Type::kInt && type != Type::kFloat) return "";
    if (type == Type::kInt && text.size() > 1 && text.front() == '0' &&
        text.find_first_not_of("0123456789") == std::string::npos) {
      return "write it without the leading zero, which some read as octal";
    }
    std::string plain = text;
    std::erase(plain, ',');
    if (type == Type::kFloat && text.size() == plain.size() + 1) {
      std::string point = text;
      point[point.find(',')] = '.';
      if (ParseFloat(point)) return absl::StrCat("write the decimal point as a dot: ", point);
    }
    if (plain != text && ParseFloat(plain)) return "write it without commas, or as 1_000";
    std::optional<double> number = ParseFloat(text);
    if (type == Type::kInt && number && *number != std::floor(*number) && *number > 0 &&
        *number < 1) {
      return "a share of something is not taken: give the number itself";
    }
    return "";
  }

  // Quotes that a word processor made are part of the text.
  void NoteQuotes(const Node& node, const std::string& path) {
    for (std::string_view quote : {"\u201c", "\u201d", "\u2018", "\u2019"}) {
      if (!node.text.starts_with(quote)) continue;
      Report(node.place, path, "begins with a typographic quote, which is part of the text",
             "use \" or '", Severity::kWarning);
      return;
    }
  }

  static bool InRange(const Key& key, double value) {
    return value >= key.least && value <= key.most;
  }

  Value BindFree(const Node& node, const std::string& path) {
    Value value{.place = node.place, .text = node.text, .quoted = node.quoted};
    value.broken = node.broken;
    if (node.broken) return value;
    if (node.kind == Node::Kind::kList) {
      value.data = List();
      for (size_t i = 0; i < node.items.size(); ++i) {
        std::get<List>(value.data)
            .push_back(BindFree(node.items[i], Join(path, std::to_string(i))));
      }
    } else if (node.kind == Node::Kind::kMap) {
      value.data = Map();
      for (const NodeEntry& entry : node.entries) {
        std::get<Map>(value.data)
            .push_back({entry.key, entry.place, BindFree(entry.value, Join(path, entry.key))});
        NoteTwin(node, entry, Join(path, entry.key));
      }
    } else if (std::optional<std::string> text = Text(node, path, value)) {
      if (node.quoted) {
        value.data = *text;
      } else {
        value.data = TypeFreely(*text);
      }
    }
    return value;
  }

  // A misspelling of a known key, where unknown keys would otherwise be taken as the user's own.
  static bool LooksKnown(const std::vector<std::string_view>& known, const NodeEntry& entry) {
    // `lr:1e-4`
    if (size_t colon = entry.key.find(':'); colon != std::string::npos) {
      bool valueless = entry.value.text.empty() && entry.value.kind == Node::Kind::kScalar;
      std::string_view name = std::string_view(entry.key).substr(0, colon);
      return valueless && std::find(known.begin(), known.end(), name) != known.end();
    }
    if (InvisibleCharacter(entry.key)) return true;
    std::string_view near = Nearest(entry.key, known);
    if (near.empty() || near.front() == '_') return false;
    int limit = std::min<int>(2, static_cast<int>(entry.key.size()) / 4);
    return EditDistance(entry.key, near) <= std::max(1, limit);
  }

  void WarnOfSection(const NodeEntry& entry) {
    Report(entry.place, entry.key, "an unknown section, left alone",
           absl::StrCat("call it x-", entry.key, " if it is yours"), Severity::kWarning);
  }

  void RefuseTarget(const Section& section, const Node& node, const std::string& path) {
    if (node.broken) return;
    std::string_view wanted = node.text;
    bool file = wanted.find(".py:") != std::string_view::npos;
    std::string best = file ? "" : NearestTarget(section, wanted);
    Report(node.place, path,
           file ? absl::StrCat(Shown(node, path), " is Python code, which is never run here")
                : absl::StrCat(Shown(node, path), " is not one of the parts that are built in"),
           best.empty() ? absl::StrCat("known: ", Trainable(section))
                        : absl::StrCat("did you mean ", best, "?"));
  }

  // The parts that can be trained, by their first target.
  static std::string Trainable(const Section& section) {
    std::string names;
    for (const Section* table = &section; table; table = table->also) {
      for (const Part& part : table->parts) {
        if (part.support != Support::kHonoured) continue;
        std::string_view first = Split(part.targets, ' ').front();
        names += (names.empty() ? "" : ", ") + std::string(first);
      }
    }
    return names;
  }

  void NotePart(const Part& part, const Node& node, const std::string& path) {
    if (part.support != Support::kNotTrainable) return;
    out_.not_trainable.push_back({.place = node.place, .key = path, .message = Shown(node, path)});
  }

  // What a value asks for beyond what is done. Notes of the keys within a section that is switched
  // off are dropped.
  void NoteSupport(const Key& key, const Value& value, const std::string& path, size_t ignored,
                   size_t not_trainable) {
    if (value.is_null()) return;
    if (IsSwitchedOff(key, value)) {
      out_.ignored.resize(ignored);
      out_.not_trainable.resize(not_trainable);
      return;
    }
    bool asks = key.support == Support::kIgnored || key.support == Support::kNotTrainable;
    if (!asks || IsNeutral(key, value)) return;
    Diagnostic note{.place = value.place, .key = path, .hint = std::string(key.instead)};
    bool shown =
        value.map() == nullptr && value.list() == nullptr && !value.expanded && !IsSecretKey(path);
    note.message = shown ? value.text.substr(0, kShownText) : "";
    (key.support == Support::kIgnored ? out_.ignored : out_.not_trainable).push_back(note);
  }

  static bool IsSwitchedOff(const Key& key, const Value& value) {
    if (!key.section || key.section->enabled_by.empty()) return false;
    const Value* given = value.Find(key.section->enabled_by);
    const Key* declared = FindKey(*key.section, nullptr, key.section->enabled_by);
    const Value fallback = FallbackOf(*declared);
    const auto* on = std::get_if<bool>(given && !given->is_null() ? &given->data : &fallback.data);
    return on && !*on;
  }

  static bool IsNeutral(const Key& key, const Value& value) {
    if (value.list() && value.list()->empty()) return true;
    if (value.map() && value.map()->empty()) return true;
    if (!key.fallback.empty() && value.data == FallbackOf(key).data) return true;
    for (std::string_view word : Split(key.neutral, ' ')) {
      if (word.empty()) continue;
      Key alone = key;
      alone.fallback = word;
      if (value.data == FallbackOf(alone).data) return true;
    }
    // Without a default, false asks for nothing.
    const auto* flag = std::get_if<bool>(&value.data);
    return flag && !*flag && key.fallback.empty() && key.neutral.empty();
  }

  const BindOptions& options_;
  const bool is_recipe_;  // as a whole, and no file of another kind
  Binding& out_;
  bool unused_ = false;  // within a key that has no effect: its variables need not be set
};

}  // namespace

std::string NearestTarget(const Section& section, std::string_view wanted) {
  return std::string(FindNearest(section, wanted).first);
}

const Part* NearestPart(const Section& section, std::string_view wanted) {
  return FindNearest(section, wanted).second;
}

Binding Bind(const Section& section, const Node& node, const std::string& path,
             const BindOptions& options) {
  Binding out;
  out.value = Binder(options, &section == &kRecipeSchema, out).BindMap(section, node, path);
  return out;
}

}  // namespace am::recipe

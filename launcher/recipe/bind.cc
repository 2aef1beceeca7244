#include "launcher/recipe/bind.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
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

std::string_view KindOf(const Node& node) {
  return node.kind == Node::Kind::kList ? "a list" : "a map";
}

class Binder {
 public:
  Binder(const BindOptions& options, Binding& out) : options_(options), out_(out) {}

  Value BindMap(const Section& section, const Node& node, const std::string& path) {
    Value value{.data = Map(), .place = node.place};
    if (node.kind != Node::Kind::kMap) {
      Report(node.place, path, absl::StrCat("expected a map of keys, got ", Shown(node, path)));
      return value;
    }
    Map& map = std::get<Map>(value.data);
    const Part* part = nullptr;
    bool implied = options_.implied_parts && HasParts(section) && !node.Find("_target_");
    bool known_part = true;
    if (HasParts(section) && !implied) {
      const NodeEntry* target = node.Find("_target_");
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
    for (const NodeEntry& entry : node.entries) {
      std::string key_path = Join(path, entry.key);
      if (const Key* key =
              implied ? FindKeyOfAnyPart(section, entry.key) : FindKey(section, part, entry.key)) {
        size_t ignored = out_.ignored.size(), not_trainable = out_.not_trainable.size();
        bool outer = std::exchange(unused_, unused_ || key->support == Support::kIgnored ||
                                                key->support == Support::kNoEffect);
        map.push_back({entry.key, entry.place, BindKey(*key, entry.value, key_path)});
        unused_ = outer;
        NoteSupport(*key, map.back().value, key_path, ignored, not_trainable);
      } else if (path.empty() && entry.key.find('.') != std::string::npos) {
        Report(entry.place, entry.key,
               "a dotted key, which only overrides on the command line have",
               "write it as maps within each other");
      } else if (open && !(known_part && LooksKnown(known, entry.key))) {
        map.push_back({entry.key, entry.place, BindFree(entry.value, key_path)});
        if (path.empty()) WarnOfSection(entry);
      } else {
        Report(entry.place, key_path, "unknown key", Suggest(entry.key, known));
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
    if (node.IsPlainNull() && !TakesNullWord(key, node.text)) {
      if (!key.nullable) {
        Report(node.place, path,
               absl::StrCat("expected ", Expectation(key), ", got nothing (null)"));
      }
      return {.place = node.place, .text = node.text};
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
      return {.place = node.place};
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
        return {.place = node.place};
      }
      return BindScalar(key, item_type, node, path);
    }
    Value value{.data = List(), .place = node.place};
    if (node.kind == Node::Kind::kMap) {
      ReportMismatch(key, node, path);
      return value;
    }
    for (size_t i = 0; i < node.items.size(); ++i) {
      std::get<List>(value.data)
          .push_back(BindScalar(key, item_type, node.items[i], Join(path, std::to_string(i))));
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
    if (InvalidUtf8(expansion.text)) {
      Report(node.place, path, "the environment holds a byte that is not UTF-8");
      return std::nullopt;
    }
    if (!expansion.unset) return expansion.text;
    if (unused_) return std::nullopt;
    Report(node.place, path,
           absl::StrCat("the environment variable ", *expansion.unset, " is not set"),
           absl::StrCat("export it, or write a default: ${", *expansion.unset, ",default}"),
           options_.unset_variable);
    return std::nullopt;
  }

  Value BindScalar(const Key& key, Type type, const Node& node, const std::string& path) {
    Value value{.place = node.place, .text = node.text, .quoted = node.quoted};
    if (node.kind != Node::Kind::kScalar) {
      ReportMismatch(key, node, path);
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
      std::string hint;
      if (type == Type::kInt && text->size() > 1 && text->front() == '0' &&
          text->find_first_not_of("0123456789") == std::string::npos) {
        hint = "write it without the leading zero, which some read as octal";
      }
      if (type == Type::kSlurmTime) hint = SlurmTimeHint(*text);
      if (type == Type::kChoice) {
        if (auto near = Nearest(*text, ChoiceNames(key)); !near.empty()) {
          hint = "did you mean " + std::string(near) + "?";
        }
      }
      ReportMismatch(key, node, path, hint);
    }
    return value;
  }

  static bool InRange(const Key& key, double value) {
    return value >= key.least && value <= key.most;
  }

  Value BindFree(const Node& node, const std::string& path) {
    Value value{.place = node.place, .text = node.text, .quoted = node.quoted};
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
  static bool LooksKnown(const std::vector<std::string_view>& known, std::string_view name) {
    std::string_view near = Nearest(name, known);
    if (near.empty() || near.front() == '_') return false;
    int limit = std::min<int>(2, static_cast<int>(name.size()) / 4);
    return EditDistance(name, near) <= std::max(1, limit);
  }

  void WarnOfSection(const NodeEntry& entry) {
    Report(entry.place, entry.key, "an unknown section, left alone",
           absl::StrCat("call it x-", entry.key, " if it is yours"), Severity::kWarning);
  }

  // Class names say more than the modules they lie in; one that begins with what was written is as
  // good as it.
  static int TargetDistance(std::string_view wanted, std::string_view known) {
    std::string_view wanted_class = wanted.substr(0, 200);
    wanted_class = wanted_class.substr(wanted_class.find_last_of(".:") + 1);
    std::string_view known_class = known.substr(known.rfind('.') + 1);
    if (known_class.starts_with(wanted_class)) return 0;
    return 100 * EditDistance(wanted_class, known_class) +
           EditDistance(wanted.substr(0, 200), known);
  }

  void RefuseTarget(const Section& section, const Node& node, const std::string& path) {
    std::string_view wanted = node.text;
    std::string_view best;
    std::string trainable;
    int least = kFarTarget;
    std::vector<const Part*> parts;
    for (const Section* table = &section; table; table = table->also) {
      for (const Part& part : table->parts) parts.push_back(&part);
    }
    for (const Part* known : parts) {
      const Part& part = *known;
      bool honoured = part.support == Support::kHonoured;
      for (std::string_view target : Split(part.targets, ' ')) {
        // Of two that are as near, one that can be trained.
        int distance = TargetDistance(wanted, target) + (honoured ? 0 : kNotTrainablePenalty);
        if (target != "*" && distance < least) least = distance, best = target;
      }
      if (honoured) {
        std::string_view first = Split(part.targets, ' ').front();
        trainable += (trainable.empty() ? "" : ", ") + std::string(first);
      }
    }
    bool file = wanted.find(".py:") != std::string_view::npos;
    Report(node.place, path,
           file ? absl::StrCat(Shown(node, path), " is Python code, which is never run here")
                : absl::StrCat(Shown(node, path), " is not one of the parts that are built in"),
           best.empty() ? absl::StrCat("known: ", trainable)
                        : absl::StrCat("the nearest is ", std::string(best)));
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
  Binding& out_;
  bool unused_ = false;  // within a key that has no effect: its variables need not be set
};

}  // namespace

Binding Bind(const Section& section, const Node& node, const std::string& path,
             const BindOptions& options) {
  Binding out;
  out.value = Binder(options, out).BindMap(section, node, path);
  return out;
}

}  // namespace am::recipe

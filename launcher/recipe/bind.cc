#include "launcher/recipe/bind.h"

#include <absl/strings/str_cat.h>

#include <utility>

#include "launcher/recipe/mismatch.h"
#include "launcher/recipe/scalar.h"
#include "launcher/recipe/secret.h"
#include "launcher/recipe/support.h"
#include "launcher/recipe/syntax.h"
#include "launcher/recipe/target.h"
#include "launcher/recipe/unknown_key.h"

namespace am::recipe {
namespace {

// `lora_A_init: none` is text, `activation_checkpointing: none` a choice: words where null means
// nothing.
bool TakesNullWord(const Key& key, const std::string& text) {
  bool word = text == "none" || text == "None" || text == "null";
  return word && !key.nullable && (key.type == Type::kText || key.type == Type::kChoice);
}

class Binder {
 public:
  Binder(const BindOptions& options, bool is_recipe, Binding& out)
      : options_(options), is_recipe_(is_recipe), out_(out) {}

  Value BindMap(const Section& section, const Node& node, const std::string& path) {
    Value value{.data = Map(), .place = node.place};
    if (node.kind != Node::Kind::kMap) {
      Say(NotAMap(node, path));
      value.broken = true;
      return value;
    }
    Map& map = std::get<Map>(value.data);
    const MapContext context = ContextOf(section, node, path);
    for (const NodeEntry& entry : node.entries) {
      if (entry.key.empty()) continue;  // refused by the reader
      if (const Key* key = KeyOf(context, entry.key)) {
        map.push_back({entry.key, entry.place, BindKnown(*key, entry, Join(path, entry.key))});
        if (node.Find(entry.key) != &entry) MarkBroken(map, entry.key);  // it stands twice
      } else if (IsOwn(context, entry)) {
        map.push_back({entry.key, entry.place, BindFree(entry.value, Join(path, entry.key))});
        for (Diagnostic& remark : RemarksOnOwn(context, entry)) Say(std::move(remark));
      } else {
        BindUnknown(context, entry, map);
      }
    }
    return value;
  }

 private:
  void Say(Diagnostic diagnostic) { out_.diagnostics.push_back(std::move(diagnostic)); }

  void Report(const Place& place, const std::string& path, std::string message,
              std::string hint = "", Severity severity = Severity::kError) {
    Say({.severity = severity,
         .place = place,
         .key = path,
         .message = std::move(message),
         .hint = std::move(hint)});
  }

  static void MarkBroken(Map& map, std::string_view key) {
    for (Entry& entry : map) {
      if (entry.key == key) entry.value.broken = true;
    }
  }

  // ---- maps

  // What is known of a map's keys, by its target; a target that is not known is refused.
  MapContext ContextOf(const Section& section, const Node& node, const std::string& path) {
    MapContext map{.section = section,
                   .node = node,
                   .path = path,
                   .is_recipe = is_recipe_,
                   .open = section.open};
    map.implied = options_.implied_parts && HasParts(section) && !node.Find("_target_");
    if (HasParts(section) && !map.implied) {
      const NodeEntry* target = TargetOf(section, node);
      bool given = target && target->value.kind == Node::Kind::kScalar;
      bool empty = given && target->value.IsPlainNull();  // said with its type
      map.part =
          FindPart(section, given ? std::string_view(target->value.text) : section.default_part);
      map.refused_target = !map.part;
      map.open = map.open || !map.part || map.part->open;
      if (!map.part && !empty) {
        RefuseTarget(section, target->value, Join(path, "_target_"));
      } else if (given && map.part) {
        NotePart(*map.part, target->value, Join(path, "_target_"));
      }
    }
    map.known = map.implied ? KnownKeysOfAllParts(section) : KnownKeys(section, map.part);
    for (std::string_view name : map.known) {
      if (!node.Find(name)) map.missing.push_back(name);
    }
    return map;
  }

  static const Key* KeyOf(const MapContext& map, std::string_view name) {
    if (IsInclude(map, name)) return nullptr;
    return map.implied ? FindKeyOfAnyPart(map.section, name) : FindKey(map.section, map.part, name);
  }

  Value BindKnown(const Key& key, const NodeEntry& entry, const std::string& path) {
    size_t ignored = out_.ignored.size(), not_trainable = out_.not_trainable.size();
    bool without_effect = key.support == Support::kIgnored || key.support == Support::kNoEffect;
    bool outer = std::exchange(unused_, unused_ || without_effect);
    Value value = BindKey(key, entry.value, path);
    unused_ = outer;
    NoteSupport(key, value, path, ignored, not_trainable);
    return value;
  }

  void BindUnknown(const MapContext& context, const NodeEntry& entry, Map& map) {
    UnknownKey unknown = JudgeUnknownKey(context, entry);
    if (unknown.refusal) Say(*std::move(unknown.refusal));
    if (unknown.belongs_to) out_.misplaced.push_back(*std::move(unknown.belongs_to));
    if (unknown.meant.empty()) return;
    // It is given, with a value that is not known: no rule judges by its default.
    map.push_back(
        {std::move(unknown.meant), entry.place, {.place = entry.value.place, .broken = true}});
  }

  void RefuseTarget(const Section& section, const Node& node, const std::string& path) {
    if (!node.broken) Say(RefusedTarget(section, node, path));
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

  // ---- values

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

  Value BindPart(const Key& key, const Node& node, const std::string& path) {
    if (node.kind == Node::Kind::kMap) return BindMap(*key.section, node, path);
    bool name = node.kind == Node::Kind::kScalar && !ParseFloat(node.text) && !ParseBool(node.text);
    if (!name) {
      Say(Mismatch(key, node, path));
      return {.place = node.place, .broken = true};
    }
    Value value = BindScalar(key, Type::kText, node, path);
    const auto* target = std::get_if<std::string>(&value.data);
    if (!target || key.section->parts.empty()) return value;
    if (const Part* part = FindPart(*key.section, *target)) {
      NotePart(*part, node, path);
    } else if (key.name != "config") {  // of a model, where a name is a hub id
      RefuseTarget(*key.section, node, path);
    }
    return value;
  }

  Value BindSections(const Key& key, const Node& node, const std::string& path) {
    Value value{.data = List(), .place = node.place};
    if (node.kind != Node::Kind::kList) Say(Mismatch(key, node, path));
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
        Say(Mismatch(key, node, path, "write [0.9, 0.999]"));
        return {.place = node.place, .broken = true};
      }
      return BindScalar(key, item_type, node, path);
    }
    Value value{.data = List(), .place = node.place};
    if (node.kind == Node::Kind::kMap) {
      Say(Mismatch(key, node, path));
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

  Value BindScalar(const Key& key, Type type, const Node& node, const std::string& path) {
    Value value{.place = node.place, .text = node.text, .quoted = node.quoted};
    value.broken = node.broken;
    if (node.broken) return value;
    Key typed = key;  // of a list, its element
    typed.type = type;
    if (node.kind != Node::Kind::kScalar) {
      Say(Mismatch(typed, node, path));
      value.broken = true;
      return value;
    }
    std::optional<std::string> text = Text(node, path, value);
    if (!text) return value;
    if (value.expanded && !node.quoted && key.nullable && IsNullWord(*text)) return value;
    value.data = ParseAs(typed, *text);
    if (value.is_null()) {
      value.broken = true;
      Say(Mismatch(typed, node, path, ScalarHint(typed, *text, node, path)));
    } else if (std::holds_alternative<std::string>(value.data) && !node.quoted) {
      if (auto remark = QuoteRemark(node, path)) Say(*std::move(remark));
    }
    return value;
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
        if (auto twin = TwinRemark(node, entry, path)) Say(*std::move(twin));
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
    Severity severity = options_.unset_variable;
    std::string first(expansion.unset->substr(0, expansion.unset->find('.')));
    bool reference =
        first.size() < expansion.unset->size() && FindKey(kRecipeSchema, nullptr, first) != nullptr;
    if (reference) severity = Severity::kError;  // of no environment, however it is set
    Report(node.place, path,
           absl::StrCat("the environment variable ", *expansion.unset, " is not set"),
           reference
               ? "to repeat another value of the recipe, use an anchor: &name there, *name here"
               : absl::StrCat("export it, or write a default: ${", *expansion.unset, ",default}"),
           severity);
    return std::nullopt;
  }

  const BindOptions& options_;
  const bool is_recipe_;  // as a whole, and no file of another kind
  Binding& out_;
  bool unused_ = false;  // within a key that has no effect: its variables need not be set
};

}  // namespace

Binding Bind(const Section& section, const Node& node, const std::string& path,
             const BindOptions& options) {
  Binding out;
  out.value = Binder(options, &section == &kRecipeSchema, out).BindMap(section, node, path);
  return out;
}

}  // namespace am::recipe

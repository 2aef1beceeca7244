#include "launcher/recipe/reference.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_replace.h>

#include <map>
#include <utility>
#include <vector>

#include "launcher/recipe/scalar.h"
#include "launcher/recipe/schema.h"

namespace am::recipe {
namespace {

constexpr char kIntroduction[] =
    R"(# Recipe reference

Made from the schema (`launcher/recipe/schema.h` and the tables beside it); do not edit.
`AMCTL_UPDATE_EXPECTED=1 recipe_test` writes it anew.

A recipe is a YAML map of sections. Values are typed by their keys: a number may be written `1e-5`,
`true` may be `yes`, text stays as it stands, and `null`, `~`, `none` or nothing mean null where a
key can be null (marked `?`). `${VAR}` and `${VAR,default}` take the environment's value; `$$` is a
dollar sign. `--section.key=value` on the command line lays a value over the file;
`--section.key-` takes a key out. Sections that begin with `x-` or `_` are yours.

The last column says what becomes of a key: **–** it is honoured · **no effect** accepted, results
are the same either way · **ignored** accepted with a warning · **not yet** understood and planned
for, but refused by `amctl run` (other values than the default and those in brackets).

PEFT patterns: `*` and `.*` stand for any characters, `.` for any one; a pattern without `*` names a
whole module path or its last component. `"*_proj"` and `"*.proj"` both match every module that ends
so.
)";

std::string Escaped(std::string_view text) {
  return absl::StrReplaceAll(absl::string_view(text.data(), text.size()), {{"|", "\\|"}});
}

std::string TypeText(const Key& key) {
  std::string type;
  switch (key.type) {
    case Type::kBool:
      type = "true/false";
      break;
    case Type::kChoice:
      for (std::string_view name : ChoiceNames(key)) {
        absl::StrAppend(&type, type.empty() ? "" : ", ", "`", std::string(name), "`");
      }
      break;
    case Type::kFree:
      type = "any";
      break;
    case Type::kSection:
    case Type::kPart:
      type = "section";
      break;
    case Type::kSections:
      type = "list of sections";
      break;
    default:
      type = Expectation(key);
      break;
  }
  if (!key.unit.empty()) absl::StrAppend(&type, " (", std::string(key.unit), ")");
  return type + (key.nullable ? " ?" : "");
}

std::string SupportText(const Key& key) {
  switch (key.support) {
    case Support::kHonoured:
      return "–";
    case Support::kNoEffect:
      return "no effect";
    case Support::kIgnored:
      return "ignored";
    case Support::kNotTrainable:
      return key.neutral.empty() ? "not yet"
                                 : absl::StrCat("not yet (", std::string(key.neutral), ")");
  }
  return "";
}

// The reference on its way down the schema. A section that is used in two places is printed once.
class Printer {
 public:
  std::string Print() {
    out_ = kIntroduction;
    for (const Key& key : kRecipeSchema.keys) {
      if (!key.section) continue;
      std::string name(key.name);
      absl::StrAppend(
          &out_, "\n## ", name, "\n\n", std::string(key.means),
          key.support == Support::kHonoured ? "" : absl::StrCat(" — ", SupportText(key)), "\n");
      PrintSection(*key.section, name, key.support);
    }
    out_ += "\n## Single values and free sections\n";
    std::vector<Key> rest;
    for (const Key& key : kRecipeSchema.keys) {
      if (!key.section) rest.push_back(key);
    }
    PrintKeys(rest, Support::kHonoured);
    return std::move(out_);
  }

 private:
  // What the section around a key does not do is not done with the key either.
  void PrintKeys(std::span<const Key> keys, Support around) {
    if (keys.empty()) return;
    out_ += "\n| key | type | default | meaning | |\n|---|---|---|---|---|\n";
    for (Key key : keys) {
      if (key.support == Support::kHonoured) key.support = around;
      absl::StrAppend(&out_, "| `", std::string(key.name), "` | ", Escaped(TypeText(key)), " | ",
                      key.fallback.empty() ? "" : absl::StrCat("`", std::string(key.fallback), "`"),
                      " | ", Escaped(key.means), " | ", SupportText(key), " |\n");
    }
  }

  void PrintParts(const Section& section, Support around) {
    for (const Part& part : section.parts) {
      std::string names;
      for (std::string_view target : Split(part.targets, ' ')) {
        absl::StrAppend(&names, names.empty() ? "" : ", ", "`", std::string(target), "`");
      }
      absl::StrAppend(&out_, "\n**", std::string(part.name), "**",
                      part.support == Support::kNotTrainable ? " (not yet)" : "",
                      part.name == section.default_part ? " (the default)" : "", ": ", names, "\n");
      PrintKeys(part.keys, part.support == Support::kHonoured ? around : part.support);
      if (part.open) out_ += "\nFurther keys are accepted as they stand.\n";
    }
  }

  // A section's keys, its parts, then the sections within it under their own headings.
  void PrintSection(const Section& section, const std::string& path, Support around) {
    if (auto [before, fresh] = printed_.try_emplace(&section, path); !fresh) {
      absl::StrAppend(&out_, "\nAs `", before->second, "`.\n");
      return;
    }
    PrintKeys(section.keys, around);
    if (section.open) out_ += "\nFurther keys are accepted as they stand.\n";
    PrintParts(section, around);
    PrintWithin(section.keys, path, around);
    for (const Part& part : section.parts) PrintWithin(part.keys, path, around);
    if (section.also) PrintAlso(*section.also, path, around);
  }

  // A table that several sections have: fields of config.json, or further parts.
  void PrintAlso(const Section& section, const std::string& path, Support around) {
    bool fields = !section.keys.empty() && section.keys.front().overlay;
    auto before = printed_.find(&section);
    if (before != printed_.end()) {
      absl::StrAppend(&out_, "\n", fields ? "Fields of config.json" : "Further parts",
                      " as under `", before->second, "`.\n");
      return;
    }
    if (fields) out_ += "\nFields of config.json, which may be laid over the file's own:\n";
    PrintSection(section, path, around);
  }

  void PrintWithin(std::span<const Key> keys, const std::string& path, Support around) {
    for (const Key& key : keys) {
      if (!key.section) continue;
      std::string name = absl::StrCat(path, ".", std::string(key.name));
      absl::StrAppend(&out_, "\n### ", name, "\n\n", std::string(key.means), "\n");
      PrintSection(*key.section, name, key.support == Support::kHonoured ? around : key.support);
    }
  }

  std::map<const Section*, std::string> printed_;
  std::string out_;
};

}  // namespace

std::string RecipeReference() { return Printer().Print(); }

}  // namespace am::recipe

#include "launcher/recipe/schema.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

namespace am::recipe {
namespace {

std::string_view LastComponent(std::string_view target) {
  return target.substr(target.rfind('.') + 1);
}

bool Matches(std::string_view declared, std::string_view name) {
  if (!declared.empty() && declared.back() == '*') {
    return name.starts_with(declared.substr(0, declared.size() - 1));
  }
  return declared == name;
}

bool IsIndex(std::string_view name) {
  return !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
}

const Value* Element(const Value* list, std::string_view index) {
  size_t at = 0;
  std::from_chars(index.data(), index.data() + index.size(), at);
  return list && list->list() && at < list->list()->size() ? &(*list->list())[at] : nullptr;
}

// `from_pretrained` and the like are methods: the class before them is meant.
bool IsMethod(std::string_view component) {
  return component == "from_pretrained" || component == "from_config" || component == "build";
}

}  // namespace

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

bool HasParts(const Section& section) {
  return !section.parts.empty() || (section.also && HasParts(*section.also));
}

const Part* FindPart(const Section& section, std::string_view target) {
  for (const Part& part : section.parts) {
    if (part.name == target) return &part;
    for (std::string_view known : Split(part.targets, ' ')) {
      std::string_view last = LastComponent(known);
      if (known == target || known == "*" || (last == target && !IsMethod(last))) return &part;
      // Declared without a module: the class is meant wherever it lies.
      if (known == last && LastComponent(target) == known) return &part;
    }
  }
  return section.also ? FindPart(*section.also, target) : nullptr;
}

const Part* PartOf(const Section& section, const Value* value) {
  if (!HasParts(section)) return nullptr;
  if (value) {
    if (const auto* target = std::get_if<std::string>(&value->data)) {
      return FindPart(section, *target);
    }
    if (const Value* target = value->Find("_target_")) {
      const auto* text = std::get_if<std::string>(&target->data);
      return text ? FindPart(section, *text) : nullptr;
    }
  }
  return section.default_part.empty() ? nullptr : FindPart(section, section.default_part);
}

const Key* FindKey(const Section& section, const Part* part, std::string_view name) {
  if (part) {
    for (const Key& key : part->keys) {
      if (Matches(key.name, name)) return &key;
    }
  }
  for (const Key& key : section.keys) {
    if (Matches(key.name, name)) return &key;
  }
  return section.also ? FindKey(*section.also, nullptr, name) : nullptr;
}

const Key* FindKeyOfAnyPart(const Section& section, std::string_view name) {
  for (const Section* table = &section; table; table = table->also) {
    for (const Part& part : table->parts) {
      if (const Key* key = FindKey({.keys = part.keys}, nullptr, name)) return key;
    }
  }
  return FindKey(section, nullptr, name);
}

const Key* FindKey(const Value& root, std::string_view dotted) {
  const Section* section = &kRecipeSchema;
  const Value* value = &root;
  const Key* key = nullptr;
  for (std::string_view name : Split(dotted, '.')) {
    if (!section) return nullptr;
    if (key && key->type == Type::kSections && IsIndex(name)) {  // an element: still the same key
      value = Element(value, name);
      continue;
    }
    key = FindKey(*section, PartOf(*section, value), name);
    if (!key) return nullptr;
    section = key->section;
    value = value ? value->Find(name) : nullptr;
  }
  return key;
}

std::vector<Declaration> DeclarationsOf(const Section& section) {
  std::vector<Declaration> all;
  for (const Section* table = &section; table; table = table->also) {
    for (const Key& key : table->keys) all.push_back({&key});
  }
  for (const Section* table = &section; table; table = table->also) {
    for (const Part& part : table->parts) {
      for (const Key& key : part.keys) all.push_back({&key, &part});
    }
  }
  return all;
}

std::vector<Declaration> FindDeclarations(std::string_view dotted) {
  std::vector<std::pair<const Section*, Support>> sections = {{&kRecipeSchema, Support::kHonoured}};
  std::vector<Declaration> found;
  for (std::string_view name : Split(dotted, '.')) {
    bool in_list = !found.empty() && found.front().key->type == Type::kSections;
    if (in_list && IsIndex(name)) continue;  // an element: still the same key
    if (name.ends_with("[]")) name.remove_suffix(2);
    found.clear();
    for (const auto& [section, around] : sections) {
      std::vector<Declaration> own, any;
      for (Declaration declaration : DeclarationsOf(*section)) {
        const auto& [key, part, support] = declaration;
        bool part_says = part && part->support != Support::kHonoured;
        declaration.support = key->support != Support::kHonoured ? key->support
                              : part_says                        ? part->support
                                                                 : around;
        if (key->name == name) own.push_back(declaration);
        if (Matches(key->name, name)) any.push_back(declaration);
      }
      // `validation_dataloader` is no ending of `validation_*`.
      std::ranges::copy(own.empty() ? any : own, std::back_inserter(found));
    }
    sections.clear();
    for (const Declaration& declaration : found) {
      if (!declaration.key->section) continue;
      std::pair<const Section*, Support> next = {declaration.key->section, declaration.support};
      if (std::ranges::find(sections, next) == sections.end()) sections.push_back(next);
    }
  }
  return found;
}

std::vector<std::string_view> KnownKeys(const Section& section, const Part* part) {
  std::vector<std::string_view> names;
  if (part) {
    for (const Key& key : part->keys) names.push_back(key.name);
  }
  for (const Key& key : section.keys) names.push_back(key.name);
  if (section.also) std::ranges::copy(KnownKeys(*section.also, nullptr), std::back_inserter(names));
  return names;
}

std::vector<std::string_view> KnownKeysOfAllParts(const Section& section) {
  std::vector<std::string_view> names = KnownKeys(section, nullptr);
  for (const Section* table = &section; table; table = table->also) {
    for (const Part& part : table->parts) {
      for (const Key& key : part.keys) names.push_back(key.name);
    }
  }
  return names;
}

std::vector<std::string_view> ChoiceNames(const Key& key) {
  std::vector<std::string_view> names;
  for (std::string_view choice : Split(key.choices, ' ')) {
    names.push_back(choice.substr(0, choice.find('=')));
  }
  return names;
}

}  // namespace am::recipe

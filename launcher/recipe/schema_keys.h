// Words that declare a key in one line, for the tables of schema_*.cc. Every key made by them can
// be null, which means its default.
#pragma once

#include "launcher/recipe/schema.h"

namespace am::recipe {

inline constexpr double kPositive =
    std::numeric_limits<double>::min();  // `least` of a number above zero

constexpr Key NewKey(Type type, std::string_view name, std::string_view fallback,
                     std::string_view means) {
  Key key;
  key.name = name;
  key.type = type;
  key.nullable = true;
  key.fallback = fallback;
  key.means = means;
  return key;
}

constexpr Key BoolKey(std::string_view name, std::string_view fallback, std::string_view means) {
  return NewKey(Type::kBool, name, fallback, means);
}
constexpr Key TextKey(std::string_view name, std::string_view means,
                      std::string_view fallback = "") {
  return NewKey(Type::kText, name, fallback, means);
}
constexpr Key TextsKey(std::string_view name, std::string_view means) {
  return NewKey(Type::kTexts, name, "", means);
}
constexpr Key DtypeKey(std::string_view name, std::string_view fallback, std::string_view means) {
  return NewKey(Type::kDtype, name, fallback, means);
}
constexpr Key ChoiceKey(std::string_view name, std::string_view fallback, std::string_view choices,
                        std::string_view means) {
  Key key = NewKey(Type::kChoice, name, fallback, means);
  key.choices = choices;
  return key;
}

// An integer: from 1 on, from 0 on, any.
constexpr Key CountKey(std::string_view name, std::string_view fallback, std::string_view unit,
                       std::string_view means) {
  Key key = NewKey(Type::kInt, name, fallback, means);
  key.least = 1;
  key.unit = unit;
  return key;
}
constexpr Key SizeKey(std::string_view name, std::string_view fallback, std::string_view unit,
                      std::string_view means) {
  Key key = CountKey(name, fallback, unit, means);
  key.least = 0;
  return key;
}
constexpr Key IntKey(std::string_view name, std::string_view fallback, std::string_view means) {
  return NewKey(Type::kInt, name, fallback, means);
}
constexpr Key IntsKey(std::string_view name, std::string_view unit, std::string_view means) {
  Key key = NewKey(Type::kInts, name, "", means);
  key.unit = unit;
  return key;
}

// A number: from 0 on, from 0 to 1, any.
constexpr Key NumberKey(std::string_view name, std::string_view fallback, std::string_view means) {
  Key key = NewKey(Type::kFloat, name, fallback, means);
  key.least = 0;
  return key;
}
constexpr Key ShareKey(std::string_view name, std::string_view fallback, std::string_view means) {
  Key key = NumberKey(name, fallback, means);
  key.most = 1;
  return key;
}
constexpr Key FloatKey(std::string_view name, std::string_view fallback, std::string_view means) {
  return NewKey(Type::kFloat, name, fallback, means);
}

// A section; one whose `_target_` names a part; a list of them.
constexpr Key SectionKey(std::string_view name, const Section& section, std::string_view means) {
  Key key = NewKey(Type::kSection, name, "", means);
  key.section = &section;
  return key;
}
constexpr Key PartKey(std::string_view name, const Section& section, std::string_view means) {
  Key key = SectionKey(name, section, means);
  key.type = Type::kPart;
  return key;
}
constexpr Key ListKey(std::string_view name, const Section& section, std::string_view means) {
  Key key = SectionKey(name, section, means);
  key.type = Type::kSections;
  return key;
}

constexpr Key WithSupport(Support support, Key key, std::string_view instead = "") {
  key.support = support;
  key.instead = instead;
  return key;
}
constexpr Key Naming(Names names, Key key) {
  key.names = names;
  return key;
}
constexpr Key WithUnit(std::string_view unit, Key key) {
  key.unit = unit;
  return key;
}
constexpr Key NoEffect(Key key) { return WithSupport(Support::kNoEffect, key); }
constexpr Key NotTrainable(Key key, std::string_view instead = "") {
  return WithSupport(Support::kNotTrainable, key, instead);
}

// `_target_` of a section whose parts say which names it may be.
constexpr Key TargetKey(std::string_view means) { return TextKey("_target_", means); }
// `_target_` where there is nothing to choose.
inline constexpr Key kUnusedTarget =
    NoEffect(TextKey("_target_", "a Python name that other launchers need; not read"));

}  // namespace am::recipe

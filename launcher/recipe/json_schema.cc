#include "launcher/recipe/json_schema.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/recipe/scalar.h"
#include "launcher/recipe/schema.h"

namespace am::recipe {
namespace {

using json = nlohmann::ordered_json;

// Numbers as text: so a reader of YAML 1.1 has `1e-5`, and quotes are no fault.
constexpr char kNumberText[] =
    R"(^[-+]?([0-9][0-9_]*\.?[0-9_]*|\.[0-9]+)([eE][-+]?[0-9]+)?$|^0x[0-9a-fA-F]+$)";
constexpr char kSlurmTimeText[] =
    R"(^([0-9]+-)?[0-9]+(:[0-9]+){0,2}$|^-1$|^[iI][nN][fF][iI][nN][iI][tT][eE]$|^[uU][nN][lL][iI][mM][iI][tT][eE][dD]$)";
constexpr char kDtypeText[] =
    R"(^(torch\.)?(auto|float32|fp32|float|bfloat16|bf16|float16|fp16|half|float64|fp64|double|uint8|int8|float8_e4m3fn|float8_e5m2)$)";
constexpr char kSequenceText[] = R"(^\(?[-+0-9eE._ ]+(,[-+0-9eE._ ]*)*\)?$)";  // (0.9, 0.95)

std::string Text(std::string_view text) { return std::string(text); }
json Ref(const std::string& name) { return {{"$ref", "#/$defs/" + name}}; }

// The same in any case, as a pattern of ECMA's kind.
std::string AnyCase(std::string_view word) {
  std::string pattern;
  for (char c : word) {
    auto byte = static_cast<unsigned char>(c);
    if (std::isalpha(byte)) {
      absl::StrAppend(&pattern, "[", std::string(1, static_cast<char>(std::tolower(byte))),
                      std::string(1, static_cast<char>(std::toupper(byte))), "]");
    } else if (std::isdigit(byte) || c == '_' || c == '-' || c == ',' || c == ':') {
      pattern += c;
    } else {
      absl::StrAppend(&pattern, "\\", std::string(1, c));
    }
  }
  return pattern;
}

std::string Escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    bool word = std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
    if (!word) out += '\\';
    out += c;
  }
  return out;
}

json Choice(const Key& key) {
  json values = json::array();
  std::string pattern;
  bool flags = false;
  for (std::string_view choice : Split(key.choices, ' ')) {
    for (std::string_view spelling : Split(choice, '=')) {
      flags = flags || spelling == "true" || spelling == "false";
      if (spelling == "true" || spelling == "false") {
        values.push_back(spelling == "true");
      } else {
        values.push_back(Text(spelling));
      }
      absl::StrAppend(&pattern, pattern.empty() ? "" : "|", AnyCase(spelling));
    }
  }
  return json::array(
      {{{"enum", values}}, {{"type", "string"}, {"pattern", "^(" + pattern + ")$"}}});
}

json Ranged(const Key& key, const char* type) {
  json out = {{"type", type}};
  if (key.least == std::numeric_limits<double>::min()) {
    out["exclusiveMinimum"] = 0;
  } else if (key.least != -kAny) {
    out["minimum"] = key.least;
  }
  if (key.most != kAny) out["maximum"] = key.most;
  return out;
}

std::string Description(const Key& key) {
  std::string text = Text(key.means);
  if (!key.unit.empty()) absl::StrAppend(&text, " (", Text(key.unit), ")");
  switch (key.support) {
    case Support::kHonoured:
      break;
    case Support::kNoEffect:
      text += ". Has no effect: results are the same either way.";
      break;
    case Support::kIgnored:
      text += ". Ignored, with a warning.";
      break;
    case Support::kNotTrainable:
      text += ". Not trainable yet.";
      break;
  }
  return text;
}

class Writer {
 public:
  json Write() {
    json root = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                 {"title", "amctl recipe"},
                 {"description", "A recipe of amctl; see docs/recipe_reference.md."}};
    root.update(Body(kRecipeSchema));
    defs_["variable"] = {{"description", "holds something of the environment"},
                         {"type", "string"},
                         {"pattern", "\\$"}};
    defs_["nothing"] = {{"enum", {nullptr, "none", "None", "~", ""}}};
    defs_["flag"] = {{"anyOf",
                      {{{"type", "boolean"}},
                       {{"type", "string"},
                        {"pattern", "^(" + AnyCase("true") + "|" + AnyCase("false") + "|" +
                                        AnyCase("yes") + "|" + AnyCase("no") + "|" + AnyCase("on") +
                                        "|" + AnyCase("off") + ")$"}},
                       Ref("variable")}}};
    defs_["text"] = {{"type", {"string", "number", "boolean"}}};
    defs_["number_text"] = {{"type", "string"}, {"pattern", kNumberText}};
    root["$defs"] = defs_;
    return root;
  }

 private:
  // What a value of the key may be, each way of it.
  json Ways(const Key& key) {
    switch (key.type) {
      case Type::kBool:
        return json::array({Ref("flag")});
      case Type::kInt:
        return json::array({Ranged(key, "integer"), Ref("number_text"), Ref("variable")});
      case Type::kFloat:
        return json::array({Ranged(key, "number"), Ref("number_text"), Ref("variable")});
      case Type::kText:
        return json::array({Ref("text")});
      case Type::kDtype:
        return json::array({{{"enum", {"auto", "bfloat16", "float16", "float32", "float64"}}},
                            {{"type", "string"}, {"pattern", kDtypeText}},
                            Ref("variable")});
      case Type::kChoice: {
        json ways = Choice(key);
        ways.push_back(Ref("variable"));
        return ways;
      }
      case Type::kTexts:
        return json::array({Ref("text"), {{"type", "array"}, {"items", Ref("text")}}});
      case Type::kFloats:
      case Type::kInts: {
        const char* type = key.type == Type::kInts ? "integer" : "number";
        json item = {
            {"anyOf", json::array({Ranged(key, type), Ref("number_text"), Ref("variable")})}};
        json ways = json::array({{{"type", "array"}, {"items", item}},
                                 {{"type", "string"}, {"pattern", kSequenceText}},
                                 Ref("variable")});
        if (key.type == Type::kInts) ways.push_back(Ranged(key, type));
        return ways;
      }
      case Type::kSlurmTime:
        return json::array({{{"type", "integer"}, {"minimum", 0}},
                            {{"type", "string"}, {"pattern", kSlurmTimeText}},
                            Ref("variable")});
      case Type::kFree:
        return json::array({json::object()});
      case Type::kSection: {
        json ways = json::array({RefOf(key)});
        std::string_view alone = key.section->alone;
        if (!alone.empty()) {
          for (const json& way : Ways(*FindKey(*key.section, nullptr, alone))) ways.push_back(way);
        }
        return ways;
      }
      case Type::kPart: {
        json ways = json::array({RefOf(key)});
        ways.push_back(HasParts(*key.section) ? Target(*key.section) : json{{"type", "string"}});
        return ways;
      }
      case Type::kSections: {
        json item = RefOf(key);
        if (!key.section->alone.empty()) item = {{"anyOf", {item, Ref("text")}}};
        return json::array({{{"type", "array"}, {"items", item}}});
      }
    }
    return json::array();
  }

  json Property(const Key& key) {
    json out = {{"description", Description(key)}};
    if (!key.fallback.empty()) out["default"] = json(ToJson(FallbackOf(key)));
    if (key.type == Type::kFree) return out;
    json ways = Ways(key);
    if (key.nullable) ways.push_back(Ref("nothing"));
    if (ways.size() == 1) {
      out.update(ways[0]);
    } else {
      out["anyOf"] = ways;
    }
    return out;
  }

  // A name of one of the section's parts, as FindPart takes it.
  static json TargetOf(const std::vector<const Part*>& parts) {
    json names = json::array();
    auto add = [&](std::string_view name) {
      if (std::ranges::find(names, json(Text(name))) == names.end()) names.push_back(Text(name));
    };
    std::string pattern;
    for (const Part* part : parts) {
      for (std::string_view target : Split(part->targets, ' ')) {
        add(target);
        std::string_view last = target.substr(target.rfind('.') + 1);
        bool method = last == "from_pretrained" || last == "from_config" || last == "build";
        if (target == last) {  // declared without a module: wherever it lies
          absl::StrAppend(&pattern, pattern.empty() ? "" : "|", "\\.", Escaped(target), "$");
        } else if (!method) {
          add(last);
        }
      }
      add(part->name);
    }
    json out = {{"enum", names}};
    if (pattern.empty()) return out;
    return {{"anyOf", json::array({out, {{"type", "string"}, {"pattern", pattern}}})}};
  }

  static std::vector<const Part*> PartsOf(const Section& section) {
    std::vector<const Part*> parts;
    for (const Section* table = &section; table; table = table->also) {
      for (const Part& part : table->parts) parts.push_back(&part);
    }
    return parts;
  }

  static json Target(const Section& section) { return TargetOf(PartsOf(section)); }

  json RefOf(const Key& key) {
    auto [name, fresh] = names_.try_emplace(key.section, "");
    if (fresh) {
      std::string base = Text(key.name);
      std::erase(base, '*');
      if (base.empty()) base = "named";
      std::string unique = base;
      for (int i = 2; defs_.contains(unique); ++i) unique = absl::StrCat(base, "_", i);
      name->second = unique;
      defs_[unique] = json::object();  // the name is taken while the section is written
      json body = Body(*key.section);
      defs_[unique] = std::move(body);
    }
    return Ref(names_[key.section]);
  }

  // Keys by name; those that end with `*` by pattern.
  void AddKeys(std::span<const Key> keys, json& out) {
    for (const Key& key : keys) {
      std::string name = Text(key.name);
      if (!name.ends_with('*')) {
        if (!out["properties"].contains(name)) out["properties"][name] = Property(key);
      } else if (name == "*") {
        out["additionalProperties"] = Property(key);
      } else {
        name.pop_back();
        out["patternProperties"]["^" + Escaped(name)] = Property(key);
      }
    }
  }

  json Body(const Section& section) {
    json out = {{"type", "object"}, {"properties", json::object()}};
    for (const Section* table = &section; table; table = table->also) AddKeys(table->keys, out);
    if (!HasParts(section)) {
      if (!out.contains("additionalProperties")) out["additionalProperties"] = section.open;
      return out;
    }
    out["properties"]["_target_"].erase("$ref");
    out["properties"]["_target_"]["anyOf"] = json::array({Target(section), Ref("variable")});
    AddParts(section, out);
    return out;
  }

  // Which keys there are hangs on the part: with `_target_` those of one, without it those of any,
  // since the kind of the recipe may imply it.
  void AddParts(const Section& section, json& out) {
    json common = json::array();
    for (const auto& [name, property] : out["properties"].items()) common.push_back(name);
    json rules = json::array();
    json any = {{"properties", json::object()}};
    bool any_open = section.open;
    for (const Part* part : PartsOf(section)) {
      json then = {{"properties", json::object()}};
      AddKeys(part->keys, then);
      json names = common;
      for (const auto& [name, property] : then["properties"].items()) {
        names.push_back(name);
        json& joined = any["properties"][name];
        if (joined.is_null()) {
          joined = property;
        } else if (joined != property) {
          if (!joined.contains("oneOfParts")) joined = {{"oneOfParts", json::array({joined})}};
          if (std::ranges::find(joined["oneOfParts"], property) == joined["oneOfParts"].end()) {
            joined["oneOfParts"].push_back(property);
          }
        }
      }
      any_open = any_open || part->open;
      if (!section.open && !part->open) then["propertyNames"] = {{"enum", names}};
      if (then["properties"].empty()) then.erase("properties");
      rules.push_back(
          {{"if", {{"required", {"_target_"}}, {"properties", {{"_target_", TargetOf({part})}}}}},
           {"then", then}});
    }
    json names = common;
    for (auto& [name, property] : any["properties"].items()) {
      names.push_back(name);
      if (property.contains("oneOfParts")) {
        json ways = property["oneOfParts"];
        property = {{"description", ways[0]["description"]}, {"anyOf", ways}};
      }
    }
    if (!any_open) any["propertyNames"] = {{"enum", names}};
    rules.push_back({{"if", {{"required", {"_target_"}}}}, {"else", any}});
    out["allOf"] = rules;
  }

  std::map<const Section*, std::string> names_;
  json defs_ = json::object();
};

}  // namespace

json JsonSchema() { return Writer().Write(); }

}  // namespace am::recipe

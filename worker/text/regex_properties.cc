#include "worker/text/regex_properties.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace am::text {
namespace {

constexpr std::pair<std::string_view, std::string_view> kCategories[] = {
    {"letter", "L"},
    {"casedletter", "L&"},
    {"lc", "L&"},
    {"uppercaseletter", "Lu"},
    {"lowercaseletter", "Ll"},
    {"titlecaseletter", "Lt"},
    {"modifierletter", "Lm"},
    {"otherletter", "Lo"},
    {"mark", "M"},
    {"combiningmark", "M"},
    {"nonspacingmark", "Mn"},
    {"spacingmark", "Mc"},
    {"enclosingmark", "Me"},
    {"number", "N"},
    {"decimalnumber", "Nd"},
    {"letternumber", "Nl"},
    {"othernumber", "No"},
    {"punctuation", "P"},
    {"connectorpunctuation", "Pc"},
    {"dashpunctuation", "Pd"},
    {"openpunctuation", "Ps"},
    {"closepunctuation", "Pe"},
    {"initialpunctuation", "Pi"},
    {"finalpunctuation", "Pf"},
    {"otherpunctuation", "Po"},
    {"symbol", "S"},
    {"mathsymbol", "Sm"},
    {"currencysymbol", "Sc"},
    {"modifiersymbol", "Sk"},
    {"othersymbol", "So"},
    {"separator", "Z"},
    {"spaceseparator", "Zs"},
    {"lineseparator", "Zl"},
    {"paragraphseparator", "Zp"},
    {"other", "C"},
    {"control", "Cc"},
    {"format", "Cf"},
    {"surrogate", "Cs"},
    {"privateuse", "Co"},
    {"unassigned", "Cn"}};

// Properties that are neither categories nor scripts.
constexpr std::string_view kBinaryProperties[] = {"alphabetic",
                                                  "lowercase",
                                                  "uppercase",
                                                  "emoji",
                                                  "emojipresentation",
                                                  "emojimodifier",
                                                  "emojimodifierbase",
                                                  "emojicomponent",
                                                  "extendedpictographic",
                                                  "ideographic",
                                                  "unifiedideograph",
                                                  "hexdigit",
                                                  "asciihexdigit",
                                                  "dash",
                                                  "diacritic",
                                                  "math",
                                                  "idstart",
                                                  "idcontinue",
                                                  "xidstart",
                                                  "xidcontinue",
                                                  "cased",
                                                  "caseignorable",
                                                  "defaultignorablecodepoint",
                                                  "graphemebase",
                                                  "graphemeextend",
                                                  "joincontrol",
                                                  "quotationmark",
                                                  "radical",
                                                  "regionalindicator",
                                                  "variationselector"};

}  // namespace

std::string CanonicalPropertyName(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c != ' ' && c != '-' && c != '_')
      out.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  return out;
}

// POSIX brackets and their \p{} twins, over Unicode.
std::optional<std::string> PosixClassItems(const std::string& name) {
  if (name == "alnum") return R"(\p{Alphabetic}\p{Nd})";
  if (name == "alpha") return R"(\p{Alphabetic})";
  if (name == "ascii") return R"(\x00-\x7f)";
  if (name == "blank") return R"(\x09\p{Zs})";
  if (name == "cntrl") return R"(\p{Cc})";
  if (name == "digit") return R"(\p{Nd})";
  if (name == "lower") return R"(\p{Lowercase})";
  if (name == "upper") return R"(\p{Uppercase})";
  if (name == "punct") return R"(\p{P}\p{S})";
  if (name == "space" || name == "whitespace") return std::string(kSpace);
  if (name == "word") return std::string(kWord);
  if (name == "xdigit") return std::string(kHex);
  if (name == "any") return R"(\x{0}-\x{10ffff})";
  return std::nullopt;
}

std::string PcreProperty(std::string_view name) {
  const std::string canonical = CanonicalPropertyName(name);
  const auto* known = std::find_if(std::begin(kCategories), std::end(kCategories),
                                   [&](const auto& entry) { return entry.first == canonical; });
  std::string property;
  if (known != std::end(kCategories)) {
    property = known->second;
  } else if (canonical.size() <= 2) {
    property = canonical;
    property[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(property[0])));
  } else if (std::find(std::begin(kBinaryProperties), std::end(kBinaryProperties), canonical) !=
             std::end(kBinaryProperties)) {
    property = canonical;
  } else {
    const size_t equals = canonical.find('=');  // a script; PCRE2 would add the script extensions
    property = "sc:" + (equals == std::string::npos ? canonical : canonical.substr(equals + 1));
  }
  return property;
}

}  // namespace am::text

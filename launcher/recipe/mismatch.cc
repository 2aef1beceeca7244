#include "launcher/recipe/mismatch.h"

#include <absl/strings/str_cat.h>

#include <cmath>
#include <utility>

#include "launcher/recipe/scalar.h"
#include "launcher/recipe/secret.h"
#include "launcher/recipe/slurm_time.h"
#include "launcher/recipe/suggest.h"

namespace am::recipe {
namespace {

std::string DidYouMean(std::string_view near) {
  return near.empty() ? "" : absl::StrCat("did you mean ", std::string(near), "?");
}

// What a bool was probably meant to be, by its first letter or by 0 and 1.
std::string BoolHint(std::string_view text) {
  if (text.size() != 1) return "";
  if (std::string_view("yYtT1").find(text.front()) != std::string_view::npos) return "write true";
  if (std::string_view("nNfF0").find(text.front()) != std::string_view::npos) return "write false";
  return "";
}

std::string NumberHint(Type type, const std::string& text) {
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

// `key value` or `key=value` where a map of keys is expected.
std::string MapHint(const Node& node) {
  bool maps = node.kind == Node::Kind::kList && !node.items.empty() &&
              node.items.front().kind == Node::Kind::kMap;
  if (maps) return "write its keys without the dashes";
  if (node.kind != Node::Kind::kScalar || node.quoted) return "";
  size_t colon = node.text.find(':');
  if (colon != std::string::npos && node.text.substr(colon + 1, 1) != " ") {
    return "write `key: value`, with a blank behind the colon";
  }
  return node.text.find_first_of("= ") == std::string::npos ? "" : "write `key: value`, one a line";
}

}  // namespace

std::string Shown(const Node& node, const std::string& path) {
  if (node.kind == Node::Kind::kList) return "a list";
  if (node.kind == Node::Kind::kMap) return "a map";
  if (IsSecretKey(path) || HoldsSecret(node.text)) return std::string(kStars);
  std::string text = node.text.substr(0, kShownText) + (node.text.size() > kShownText ? "…" : "");
  return node.quoted || node.text.empty() || node.text.find(' ') != std::string::npos
             ? absl::StrCat("\"", text, "\"")
             : text;
}

Diagnostic Mismatch(const Key& key, const Node& node, const std::string& path, std::string hint) {
  return {.place = node.place,
          .key = path,
          .message = absl::StrCat("expected ", Expectation(key), ", got ", Shown(node, path)),
          .hint = std::move(hint)};
}

Diagnostic NotAMap(const Node& node, const std::string& path) {
  return {.place = node.place,
          .key = path,
          .message = absl::StrCat("expected a map of keys, got ", Shown(node, path)),
          .hint = MapHint(node)};
}

std::string ScalarHint(const Key& key, const std::string& text, const Node& node,
                       const std::string& path) {
  const Type type = key.type;
  if (type == Type::kSlurmTime) return SlurmTimeHint(text);
  if (type == Type::kChoice) return DidYouMean(Nearest(text, ChoiceNames(key)));
  if (text != node.text) return "";  // of the environment: never shown
  if (type == Type::kBool && text.size() > 2) {
    constexpr std::string_view kWords[] = {"true", "false"};
    if (auto near = Nearest(text, kWords); !near.empty()) return DidYouMean(near);
  }
  if (IsSecretKey(path) || HoldsSecret(text)) return "";  // never shown
  if (size_t hash = text.find('#'); hash != std::string::npos && hash > 0) {
    return "a comment needs a blank before its #";
  }
  if (text.find("\u2212") != std::string::npos || text.find("\u2013") != std::string::npos) {
    return "write the minus sign as -";
  }
  if (type == Type::kBool) return BoolHint(text);
  if (type == Type::kInt || type == Type::kFloat) return NumberHint(type, text);
  return "";
}

std::optional<Node> PythonSequence(const Node& node) {
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

std::optional<Diagnostic> QuoteRemark(const Node& node, const std::string& path) {
  for (std::string_view quote : {"\u201c", "\u201d", "\u2018", "\u2019"}) {
    if (!node.text.starts_with(quote)) continue;
    return Diagnostic{.severity = Severity::kWarning,
                      .place = node.place,
                      .key = path,
                      .message = "begins with a typographic quote, which is part of the text",
                      .hint = "use \" or '"};
  }
  return std::nullopt;
}

}  // namespace am::recipe

#include "worker/text/pre_tokenizer.h"

#include <algorithm>
#include <string>

#include "worker/text/byte_level.h"
#include "worker/text/json_fields.h"
#include "worker/text/patterns.h"
#include "worker/text/unicode.h"
#include "worker/text/utf8.h"

namespace am::text {
namespace {

using Piece = PreTokenizer::Piece;
using Sink = PreTokenizer::Sink;

constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

enum class Behavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

Behavior ParseBehavior(const nlohmann::json& section, const char* otherwise) {
  const std::string name = section.contains("behavior") || otherwise == nullptr
                               ? StringField(section, "behavior")
                               : std::string(otherwise);
  if (name == "Removed") return Behavior::kRemoved;
  if (name == "Isolated") return Behavior::kIsolated;
  if (name == "MergedWithPrevious") return Behavior::kMergedWithPrevious;
  if (name == "MergedWithNext") return Behavior::kMergedWithNext;
  if (name == "Contiguous") return Behavior::kContiguous;
  throw UserError("behavior: `" + name +
                  "` is not understood; use Removed, Isolated, MergedWithPrevious, MergedWithNext "
                  "or Contiguous");
}

// A stretch of a piece: a delimiter (a match of the pattern) or what lies between two.
struct Stretch {
  size_t begin, end;
  bool delimiter;
};
// Calls its argument for the stretches of a text, which cover it in order.
using Cutter = std::function<void(std::string_view, FunctionRef<void(Stretch)>)>;

Cutter CutByRegex(Regex regex, bool invert) {
  return
      [regex = std::move(regex), invert](std::string_view text, FunctionRef<void(Stretch)> emit) {
        size_t done = 0;
        regex.ForEachMatch(text, [&](size_t begin, size_t end) {
          if (done != begin) emit({done, begin, invert});
          emit({begin, end, !invert});
          done = end;
        });
        if (done != text.size()) emit({done, text.size(), invert});
      };
}

template <typename Predicate>
Cutter CutByCharacter(Predicate is_delimiter) {
  return [is_delimiter](std::string_view text, FunctionRef<void(Stretch)> emit) {
    size_t done = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t begin = at;
      if (!is_delimiter(NextCodePoint(text, at))) continue;
      if (done < begin) emit({done, begin, false});
      emit({begin, at, true});
      done = at;
    }
    if (done < text.size()) emit({done, text.size(), false});
  };
}

void Emit(Piece piece, size_t begin, size_t end, Sink sink) {
  if (begin < end) sink({piece.text.substr(begin, end - begin), piece.at_start && begin == 0});
}

PreTokenizer::Step Split(Cutter cut, Behavior behavior) {
  switch (behavior) {
    case Behavior::kIsolated:
      return [cut](Piece piece, Sink sink) {
        cut(piece.text, [&](Stretch s) { Emit(piece, s.begin, s.end, sink); });
      };
    case Behavior::kRemoved:
      return [cut](Piece piece, Sink sink) {
        cut(piece.text, [&](Stretch s) {
          if (!s.delimiter) Emit(piece, s.begin, s.end, sink);
        });
      };
    default:
      break;
  }
  return [cut, behavior](Piece piece, Sink sink) {
    std::vector<Stretch> stretches;
    cut(piece.text, [&](Stretch s) { stretches.push_back(s); });
    const bool from_right = behavior == Behavior::kMergedWithNext;
    if (from_right) std::reverse(stretches.begin(), stretches.end());
    std::vector<Stretch> merged;
    bool previous = false;
    for (const Stretch& s : stretches) {
      const bool joins =
          behavior == Behavior::kContiguous ? s.delimiter == previous : s.delimiter && !previous;
      if (joins && !merged.empty()) {
        merged.back().begin = std::min(merged.back().begin, s.begin);
        merged.back().end = std::max(merged.back().end, s.end);
      } else {
        merged.push_back(s);
      }
      previous = s.delimiter;
    }
    if (from_right) std::reverse(merged.begin(), merged.end());
    for (const Stretch& s : merged) Emit(piece, s.begin, s.end, sink);
  };
}

// Runs of word characters and runs of what is neither word nor space: \w+|[^\w\s]+.
void SplitWords(Piece piece, Sink sink) {
  enum class Class { kWord, kSpace, kOther };
  const auto class_of = [](char32_t c) {
    return IsWordCharacter(c) ? Class::kWord : IsWhitespace(c) ? Class::kSpace : Class::kOther;
  };
  size_t begin = 0;
  Class current = Class::kSpace;
  for (size_t at = 0; at < piece.text.size();) {
    const size_t here = at;
    const Class c = class_of(NextCodePoint(piece.text, at));
    if (c == current) continue;
    if (current != Class::kSpace) Emit(piece, begin, here, sink);
    begin = here;
    current = c;
  }
  if (current != Class::kSpace) Emit(piece, begin, piece.text.size(), sink);
}

PreTokenizer::Step FixedLength(size_t length) {
  return [length](Piece piece, Sink sink) {
    size_t begin = 0, count = 0;
    for (size_t at = 0; at < piece.text.size();) {
      NextCodePoint(piece.text, at);
      if (++count < length && at < piece.text.size()) continue;
      Emit(piece, begin, at, sink);
      begin = at;
      count = 0;
    }
  };
}

PreTokenizer::Step AddPrefixSpace() {
  return [](Piece piece, Sink sink) {
    if (piece.text.starts_with(' ')) return sink(piece);
    const std::string prefixed = " " + std::string(piece.text);
    sink({prefixed, piece.at_start});
  };
}

char32_t OneCharacter(const nlohmann::json& section, const char* key) {
  const std::string text = StringField(section, key);
  size_t at = 0;
  if (text.empty()) throw UserError(std::string(key) + ": expected one character");
  const char32_t c = NextCodePoint(text, at);
  if (at != text.size())
    throw UserError(std::string(key) + ": expected one character, found `" + text + "`");
  return c;
}

PreTokenizer::Step Metaspace(const nlohmann::json& section) {
  const char32_t replacement_character = OneCharacter(section, "replacement");
  const std::string replacement = StringField(section, "replacement");
  std::string scheme =
      section.contains("prepend_scheme") ? StringField(section, "prepend_scheme") : "always";
  if (scheme != "always" && scheme != "first" && scheme != "never") {
    throw UserError("prepend_scheme: `" + scheme +
                    "` is not understood; use always, first or never");
  }
  if (!BoolField(section, "add_prefix_space", true)) {
    if (section.contains("prepend_scheme") && scheme != "never") {
      throw UserError("add_prefix_space: false contradicts prepend_scheme `" + scheme + "`");
    }
    scheme = "never";
  }
  const bool always = scheme == "always", first = scheme == "first";
  const PreTokenizer::Step split = Split(
      CutByCharacter([replacement_character](char32_t c) { return c == replacement_character; }),
      Behavior::kMergedWithNext);
  const bool splits = BoolField(section, "split", true);
  return [=](Piece piece, Sink sink) {
    std::string text;
    text.reserve(piece.text.size() * 2);
    const bool marked = piece.text.starts_with(' ') || piece.text.starts_with(replacement);
    if (!marked && (always || (first && piece.at_start))) text += replacement;
    for (const char c : piece.text) {
      if (c == ' ') {
        text += replacement;
      } else {
        text += c;
      }
    }
    if (splits) {
      split({text, piece.at_start}, sink);
    } else {
      sink({text, piece.at_start});
    }
  };
}

}  // namespace

PreTokenizer PreTokenizer::Parse(const nlohmann::json& section, bool bytes_for_model) {
  PreTokenizer pre_tokenizer;
  if (!section.is_null()) pre_tokenizer.ParseInto(section, true, bytes_for_model);
  return pre_tokenizer;
}

void PreTokenizer::ParseInto(const nlohmann::json& section, bool last, bool bytes_for_model) {
  const std::string type = StringField(section, "type");
  if (type == "Sequence") {
    const nlohmann::json& inner = ArrayField(section, "pretokenizers");
    for (size_t i = 0; i < inner.size(); ++i)
      ParseInto(inner[i], last && i + 1 == inner.size(), bytes_for_model);
  } else if (type == "ByteLevel") {
    if (BoolField(section, "add_prefix_space", true)) Add(AddPrefixSpace());
    if (BoolField(section, "use_regex", true)) {
      Add(Split(CutByRegex(Regex::Compile(kGpt2Pattern), false), Behavior::kIsolated));
    }
    if (last && bytes_for_model) {
      byte_level_ = true;
    } else {
      Add([](Piece piece, Sink sink) {
        const std::string spelled = ToByteLevel(piece.text);
        sink({spelled, piece.at_start});
      });
    }
  } else if (type == "Split") {
    Add(Split(CutByRegex(ParsePattern(section), BoolField(section, "invert", false)),
              ParseBehavior(section, nullptr)));
  } else if (type == "Digits") {
    const bool individual = BoolField(section, "individual_digits", false);
    Add(Split(CutByCharacter(IsNumeric), individual ? Behavior::kIsolated : Behavior::kContiguous));
  } else if (type == "Metaspace") {
    Add(Metaspace(section));
  } else if (type == "Whitespace") {
    Add(SplitWords);
  } else if (type == "WhitespaceSplit") {
    Add(Split(CutByCharacter(IsWhitespace), Behavior::kRemoved));
  } else if (type == "Punctuation") {
    Add(Split(CutByCharacter(IsPunctuation), ParseBehavior(section, "Isolated")));
  } else if (type == "BertPreTokenizer") {
    Add(Split(CutByCharacter(IsWhitespace), Behavior::kRemoved));
    Add(Split(CutByCharacter(IsPunctuation), Behavior::kIsolated));
  } else if (type == "CharDelimiterSplit" || type == "Delimiter") {
    const char32_t delimiter = OneCharacter(section, "delimiter");
    Add(Split(CutByCharacter([delimiter](char32_t c) { return c == delimiter; }),
              Behavior::kRemoved));
  } else if (type == "FixedLength") {
    const int64_t length = section.contains("length") ? IntField(section, "length") : 5;
    if (length < 1) throw UserError("length: " + std::to_string(length) + " is not positive");
    Add(FixedLength(static_cast<size_t>(length)));
  } else {
    throw UserError(
        "the type `" + type +
        "` is not understood; understood: Sequence, ByteLevel, Split, Digits, Metaspace, "
        "Whitespace, "
        "WhitespaceSplit, Punctuation, BertPreTokenizer, CharDelimiterSplit, FixedLength");
  }
}

void PreTokenizer::RunFrom(size_t step, Piece piece, Sink sink) const {
  if (piece.text.empty()) return;
  if (step == steps_.size()) return sink(piece);
  steps_[step](piece, [&](Piece next) { RunFrom(step + 1, next, sink); });
}

}  // namespace am::text

#include "worker/text/normalizer.h"

#include <memory>

#include "common/error.h"
#include "worker/text/byte_level.h"
#include "worker/text/charsmap.h"
#include "worker/text/json_fields.h"
#include "worker/text/patterns.h"
#include "worker/text/unicode.h"
#include "worker/text/utf8.h"

namespace am::text {
namespace {

// Keeps and maps code points; dropping the first means that the segment no longer begins where the
// input does.
template <typename Map>  // char32_t -> char32_t, or kDrop
void MapCharacters(Segment& segment, Map map) {
  std::string out;
  out.reserve(segment.text.size());
  for (size_t at = 0; at < segment.text.size();) {
    const bool first = at == 0;
    const char32_t c = map(NextCodePoint(segment.text, at));
    if (c != static_cast<char32_t>(-1)) {
      AppendUtf8(out, c);
    } else if (first) {
      segment.at_start = false;
    }
  }
  segment.text = std::move(out);
}
constexpr char32_t kDrop = static_cast<char32_t>(-1);

void Strip(Segment& segment, bool left, bool right) {
  const std::string& text = segment.text;
  size_t begin = 0;
  for (size_t at = 0; left && at < text.size();) {
    if (!IsWhitespace(NextCodePoint(text, at))) break;
    begin = at;
  }
  size_t end = text.size();
  while (right && end > begin) {
    size_t last = end - 1;
    while (last > begin && (static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) --last;
    size_t at = last;
    if (!IsWhitespace(NextCodePoint(text, at))) break;
    end = last;
  }
  if (begin > 0) segment.at_start = false;
  if (begin > 0 || end < text.size()) segment.text = text.substr(begin, end - begin);
}

char32_t MapNmt(char32_t c) {
  if ((c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F ||
      c == 0x9F) {
    return kDrop;
  }
  const bool space = c == 0x09 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 ||
                     (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                     c == 0xFEFF || c == 0xFFFD;
  return space ? U' ' : c;
}

bool IsCjkIdeograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

struct BertOptions {
  bool clean_text, handle_chinese_chars, strip_accents, lowercase;
};

void ApplyBert(Segment& segment, const BertOptions& options) {
  if (options.clean_text) {
    MapCharacters(segment, [](char32_t c) {
      if (c == '\t' || c == '\n' || c == '\r') return U' ';
      if (c == 0 || c == 0xFFFD || IsOther(c)) return kDrop;
      return IsWhitespace(c) ? U' ' : c;
    });
  }
  if (options.handle_chinese_chars) {
    std::string out;
    for (size_t at = 0; at < segment.text.size();) {
      const char32_t c = NextCodePoint(segment.text, at);
      const bool spaced = IsCjkIdeograph(c);
      if (spaced) out += ' ';
      AppendUtf8(out, c);
      if (spaced) out += ' ';
    }
    segment.text = std::move(out);
  }
  if (options.strip_accents) {
    segment.text = Normalize(segment.text, NormalForm::kNfd);
    MapCharacters(segment, [](char32_t c) { return IsNonspacingMark(c) ? kDrop : c; });
  }
  if (options.lowercase) segment.text = Lowercase(segment.text);
}

std::string DecodeBase64(const std::string& text) {
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    int value = -1;
    if (c >= 'A' && c <= 'Z') value = c - 'A';
    if (c >= 'a' && c <= 'z') value = c - 'a' + 26;
    if (c >= '0' && c <= '9') value = c - '0' + 52;
    if (c == '+') value = 62;
    if (c == '/') value = 63;
    if (c == '=') break;
    if (value < 0) throw UserError("precompiled_charsmap: not base64");
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out.push_back(static_cast<char>(bits >> count & 0xFF));
    }
  }
  return out;
}

}  // namespace

Normalizer Normalizer::Parse(const nlohmann::json& section) {
  Normalizer normalizer;
  if (!section.is_null()) normalizer.ParseInto(section);
  return normalizer;
}

void Normalizer::ParseInto(const nlohmann::json& section) {
  const std::string type = StringField(section, "type");
  const auto form = [this](NormalForm f) {
    Add([f](Segment& s) { s.text = Normalize(s.text, f); });
  };
  if (type == "Sequence") {
    for (const nlohmann::json& inner : ArrayField(section, "normalizers")) ParseInto(inner);
  } else if (type == "NFC") {
    form(NormalForm::kNfc);
  } else if (type == "NFD") {
    form(NormalForm::kNfd);
  } else if (type == "NFKC") {
    form(NormalForm::kNfkc);
  } else if (type == "NFKD") {
    form(NormalForm::kNfkd);
  } else if (type == "Lowercase") {
    Add([](Segment& s) { s.text = Lowercase(s.text); });
  } else if (type == "StripAccents") {
    Add([](Segment& s) {
      MapCharacters(s, [](char32_t c) { return IsCombiningMark(c) ? kDrop : c; });
    });
  } else if (type == "Strip") {
    const bool left = BoolField(section, "strip_left", false),
               right = BoolField(section, "strip_right", false);
    Add([left, right](Segment& s) { Strip(s, left, right); });
  } else if (type == "Prepend") {
    Add([prefix = StringField(section, "prepend")](Segment& s) {
      if (!s.text.empty()) s.text.insert(0, prefix);
    });
  } else if (type == "Replace") {
    Add([regex = ParsePattern(section), content = StringField(section, "content")](Segment& s) {
      if (ReplaceAll(regex, content, s.text)) s.at_start = false;
    });
  } else if (type == "Nmt") {
    Add([](Segment& s) { MapCharacters(s, MapNmt); });
  } else if (type == "ByteLevel") {
    Add([](Segment& s) { s.text = ToByteLevel(s.text); });
  } else if (type == "Precompiled") {
    const auto map =
        std::make_shared<Charsmap>(DecodeBase64(StringField(section, "precompiled_charsmap")));
    Add([map](Segment& s) { s.text = ApplyPrecompiled(*map, s.text); });
  } else if (type == "BertNormalizer" || type == "Bert") {
    const bool lowercase = BoolField(section, "lowercase", true);
    const BertOptions options{BoolField(section, "clean_text", true),
                              BoolField(section, "handle_chinese_chars", true),
                              BoolField(section, "strip_accents", lowercase), lowercase};
    Add([options](Segment& s) { ApplyBert(s, options); });
  } else {
    throw UserError("the type `" + type +
                    "` is not understood; understood: Sequence, NFC, NFD, NFKC, NFKD, Lowercase, "
                    "Strip, StripAccents, "
                    "Prepend, Replace, Nmt, ByteLevel, Precompiled, BertNormalizer");
  }
}

}  // namespace am::text

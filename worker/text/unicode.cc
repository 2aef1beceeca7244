#include "worker/text/unicode.h"

#include <unicode/brkiter.h>
#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/utext.h>

#include <algorithm>
#include <memory>

#include "common/error.h"
#include "worker/text/utf8.h"

namespace am::text {
namespace {

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<signed char>(c) >= 0; });
}

bool IsInUnicode(char32_t c, int version) {
  UVersionInfo age;
  u_charAge(static_cast<UChar32>(c), age);
  return age[0] != 0 && age[0] <= version;
}

uint32_t CategoryMask(char32_t c) { return U_GET_GC_MASK(static_cast<UChar32>(c)); }

const icu::Normalizer2& Form(NormalForm form) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* normalizer = nullptr;
  switch (form) {
    case NormalForm::kNfc:
      normalizer = icu::Normalizer2::getNFCInstance(status);
      break;
    case NormalForm::kNfd:
      normalizer = icu::Normalizer2::getNFDInstance(status);
      break;
    case NormalForm::kNfkc:
      normalizer = icu::Normalizer2::getNFKCInstance(status);
      break;
    case NormalForm::kNfkd:
      normalizer = icu::Normalizer2::getNFKDInstance(status);
      break;
  }
  if (U_FAILURE(status))
    throw InternalError(std::string("ICU normalization: ") + u_errorName(status));
  return *normalizer;
}

void AppendNormalized(std::string_view text, NormalForm form, std::string& out) {
  icu::StringByteSink<std::string> sink(&out);
  UErrorCode status = U_ZERO_ERROR;
  Form(form).normalizeUTF8(0, icu::StringPiece(text.data(), static_cast<int32_t>(text.size())),
                           sink, nullptr, status);
  if (U_FAILURE(status)) {
    throw InternalError(std::string("ICU normalization: ") + u_errorName(status));
  }
}

}  // namespace

bool IsWhitespace(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_WHITE_SPACE);
}
bool IsNumeric(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  return CategoryMask(c) & U_GC_N_MASK;
}
bool IsPunctuation(char32_t c) {
  if (c < 0x80) {
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
  }
  if (c == 0x166D || c == 0x111C9) return true;
  return (CategoryMask(c) & U_GC_P_MASK) && IsInUnicode(c, 8);
}
bool IsCombiningMark(char32_t c) {
  if (c < 0x300 || c == 0x111C9) return false;
  if (c == 0x1CF2 || c == 0x1CF3) return true;
  return (CategoryMask(c) & U_GC_M_MASK) && IsInUnicode(c, 9);
}
bool IsNonspacingMark(char32_t c) {
  if (c < 0x300 || c == 0x1885 || c == 0x1886 || c == 0xA9BD || c == 0x111C9) return false;
  if (c == 0x1734) return true;
  return (CategoryMask(c) & U_GC_MN_MASK) && IsInUnicode(c, 8);
}
bool IsOther(char32_t c) {
  return (CategoryMask(c) & (U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK)) && IsInUnicode(c, 8);
}
bool IsWordCharacter(char32_t c) {
  if (c < 0x80)
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_ALPHABETIC) ||
         (CategoryMask(c) & (U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK)) || c == 0x200C ||
         c == 0x200D;
}

// What Unicode 9 does not know stands for itself, and nothing composes or moves across it.
std::string Normalize(std::string_view text, NormalForm form) {
  if (IsAscii(text)) return std::string(text);
  std::string out;
  out.reserve(text.size() + 16);
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = NextCodePoint(text, at);
    if (c < 0x7FD || IsInUnicode(c, 9))
      continue;  // U+07FD is the first later one that takes part in a normal form
    AppendNormalized(text.substr(done, begin - done), form, out);
    out.append(text, begin, at - begin);
    done = at;
  }
  AppendNormalized(text.substr(done), form, out);
  return out;
}

std::string Lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const char32_t c = NextCodePoint(text, at);
    if (c < 0x80) {
      out.push_back(static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c));
    } else if (c == 0x130) {  // the one code point whose full lower-case mapping has two
      out += "i\xCC\x87";
    } else {
      AppendUtf8(out, static_cast<char32_t>(u_tolower(static_cast<UChar32>(c))));
    }
  }
  return out;
}

void ForEachGrapheme(std::string_view text, void (*fn)(void*, std::string_view), void* context) {
  UErrorCode status = U_ZERO_ERROR;
  thread_local const std::unique_ptr<icu::BreakIterator> breaks(
      icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), status));
  UText view = UTEXT_INITIALIZER;
  utext_openUTF8(&view, text.data(), static_cast<int64_t>(text.size()), &status);
  if (U_FAILURE(status) || breaks == nullptr) {
    throw InternalError(std::string("ICU break iterator: ") + u_errorName(status));
  }
  breaks->setText(&view, status);
  int32_t begin = breaks->first();
  for (int32_t end = breaks->next(); end != icu::BreakIterator::DONE;
       begin = end, end = breaks->next()) {
    fn(context, text.substr(begin, end - begin));
  }
  utext_close(&view);
}

}  // namespace am::text

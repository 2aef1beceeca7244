// What the tokenizer asks of the Unicode database: a few properties and the normal forms, by ICU.
//
// Some of them are as the reference library has them, whose tables stop at Unicode 8 or 9: a later
// mark is no mark.
#pragma once

#include <string>
#include <string_view>

namespace am::text {

bool IsWhitespace(char32_t c);      // property White_Space (Rust's char::is_whitespace)
bool IsNumeric(char32_t c);         // Nd, Nl, No
bool IsPunctuation(char32_t c);     // ASCII punctuation or P* of Unicode 8
bool IsCombiningMark(char32_t c);   // Mn, Mc, Me of Unicode 9
bool IsNonspacingMark(char32_t c);  // Mn of Unicode 8
bool IsOther(char32_t c);           // Cc, Cf, Co of Unicode 8
// \w of Rust's regex crate: Alphabetic, M, Nd, Pc, Join_Control.
bool IsWordCharacter(char32_t c);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };
// The normal forms of Unicode 9.
std::string Normalize(std::string_view text, NormalForm form);
std::string Lowercase(
    std::string_view text);  // code point by code point, no context (final sigma stays)

// Calls fn(cluster) for each extended grapheme cluster.
void ForEachGrapheme(std::string_view text, void (*fn)(void* context, std::string_view cluster),
                     void* context);

}  // namespace am::text

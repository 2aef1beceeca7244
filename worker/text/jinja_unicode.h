// Text as Python's str sees it: code points, case, white space, line ends, over UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace am::text::jinja {

int64_t CountCodePoints(std::string_view text);
// Byte offset of the code point number `index`; text.size() from the end on.
size_t OffsetOf(std::string_view text, int64_t index);
std::u32string Decode(std::string_view text);
std::string Encode(std::u32string_view text);

bool IsSpace(char32_t c);  // str.isspace, also what `\s` matches
std::string Upper(std::string_view text);
std::string Lower(std::string_view text);
std::string TitleWords(std::string_view text);  // str.title
std::string Capitalize(std::string_view text);
std::string SwapCase(std::string_view text);

// Does every code point satisfy it, and is there one? The str.is... methods.
enum class CharClass { kSpace, kDigit, kDecimal, kNumeric, kAlpha, kAlnum, kAscii, kPrintable };
bool AllAre(std::string_view text, CharClass char_class);
bool IsUpper(std::string_view text);
bool IsLower(std::string_view text);
bool IsTitle(std::string_view text);
bool IsIdentifierPart(char32_t c, bool first);

// str.strip and its halves; `chars` null means white space.
std::string_view Strip(std::string_view text, const std::string* chars, bool left, bool right);
std::vector<std::string> SplitWords(std::string_view text, int64_t max_splits);  // str.split()
std::vector<std::string> SplitWordsRight(std::string_view text,
                                         int64_t max_splits);  // str.rsplit()
std::vector<std::string> SplitLines(std::string_view text, bool keep_ends = false);
std::string QuotedText(std::string_view text);  // repr() of a str

}  // namespace am::text::jinja

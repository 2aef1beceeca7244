// UTF-8: validation and code points. No other file of ours decodes UTF-8 by hand.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace am::text {

// Offset of the first byte that is not valid UTF-8 (surrogates and overlong forms are not), or
// nothing.
std::optional<size_t> FindInvalidUtf8(std::string_view text);

// Each maximal invalid sequence becomes U+FFFD, as Python's errors="replace" does it.
std::string ReplaceInvalidUtf8(std::string_view text);

// Decodes the code point at `offset` of valid UTF-8 and advances `offset` past it.
char32_t NextCodePoint(std::string_view text, size_t& offset);
void AppendUtf8(std::string& out, char32_t code_point);

}  // namespace am::text

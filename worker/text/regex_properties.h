// Sets of characters as Oniguruma names them, in PCRE2's words. For regex_rewrite.cc.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace am::text {

// Inside of a class. PCRE2's \s has U+180E and its \w (before 10.43) lacks marks and connectors;
// Oniguruma follows Unicode.
inline constexpr std::string_view kSpace =
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
inline constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
// Outside of a class Oniguruma takes superscript digits and fractions of Latin-1 for word
// characters too.
inline constexpr std::string_view kBareWord =
    R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";
inline constexpr std::string_view kHex = "0-9A-Fa-f";

// Oniguruma ignores case, space, '-' and '_' in property names.
std::string CanonicalPropertyName(std::string_view name);
// What stands between the brackets of a POSIX class ("alpha") or of its \p{} twin; nothing where
// there is none.
std::optional<std::string> PosixClassItems(const std::string& name);
// The name of a category, binary property or script for PCRE2's \p{}.
std::string PcreProperty(std::string_view name);

}  // namespace am::text

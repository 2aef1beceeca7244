// GPT-2's alphabet: each byte as one printable code point, as byte-level tokenizers spell their
// tokens.
#pragma once

#include <string>
#include <string_view>

namespace am::text {

// The code point of each byte: itself where it is printable Latin-1, else 256 and up.
char32_t ByteLevelCharacter(unsigned char byte);
std::string ToByteLevel(std::string_view bytes);
// Appends the bytes that `token` spells; false (and nothing appended) where it has a character
// outside the alphabet.
bool AppendFromByteLevel(std::string_view token, std::string& out);

}  // namespace am::text

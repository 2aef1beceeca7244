// The known name that a misspelt one was probably meant to be.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace am::recipe {

// Insertions, deletions, substitutions and swaps of neighbours that make one of the other.
int EditDistance(std::string_view a, std::string_view b);

// The nearest of `known`, or nothing where none is near (a third of the name's length, at least 2).
// Dashes count as underscores, case does not count.
std::string_view Nearest(std::string_view name, std::span<const std::string_view> known);

// All that are as near as the nearest, in the order of `known`.
std::vector<std::string_view> AllNearest(std::string_view name,
                                         std::span<const std::string_view> known);

// "did you mean grad_acc_steps?", else "known: a, b, c" (at most 12 of them), else nothing.
std::string Suggest(std::string_view name, std::span<const std::string_view> known);

// "a", "a or b", "a, b or c".
std::string OrWords(std::span<const std::string_view> words);

}  // namespace am::recipe

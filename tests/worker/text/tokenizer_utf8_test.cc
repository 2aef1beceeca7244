#include <gtest/gtest.h>

#include "worker/text/utf8.h"

namespace am::text {
namespace {

TEST(Utf8, FindsTheFirstInvalidByte) {
  const std::pair<std::string, std::optional<size_t>> cases[] = {
      {"", std::nullopt},
      {"plain ascii, longer than eight bytes", std::nullopt},
      {"é€😀", std::nullopt},
      {"ab\x80", 2},
      {"12345678\xC3", 8},      // ends in the middle of a character
      {"\xC0\x80", 0},          // overlong
      {"\xE0\x9F\xBF", 0},      // overlong
      {"x\xED\xA0\x80", 1},     // a surrogate
      {"\xF4\x90\x80\x80", 0},  // beyond U+10FFFF
      {"\xF4\x8F\xBF\xBF", std::nullopt},
      {"\xFF", 0},
  };
  for (const auto& [text, place] : cases) EXPECT_EQ(FindInvalidUtf8(text), place) << text;
}

TEST(Utf8, ReplacesEachMaximalInvalidSequenceAsPythonDoes) {
  EXPECT_EQ(ReplaceInvalidUtf8("a\xE2\x82z"), "a\uFFFDz");  // one for the truncated euro sign
  EXPECT_EQ(ReplaceInvalidUtf8("\xE2\x28\xA1"), "\uFFFD(\uFFFD");
  EXPECT_EQ(ReplaceInvalidUtf8("\xF0\x9F\x98"), "\uFFFD");
  EXPECT_EQ(ReplaceInvalidUtf8("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(ReplaceInvalidUtf8("fine é"), "fine é");
}

TEST(Utf8, CodePointsGoBothWays) {
  for (const char32_t c : {U'a', U'é', U'€', U'\U0001F600', char32_t{0x10FFFF}}) {
    std::string text;
    AppendUtf8(text, c);
    size_t offset = 0;
    EXPECT_EQ(NextCodePoint(text, offset), c);
    EXPECT_EQ(offset, text.size());
  }
}

}  // namespace
}  // namespace am::text

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "common/error.h"
#include "worker/text/regex.h"

namespace am::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> Matches(const char* pattern, const std::string& text) {
  std::vector<std::string> found;
  Regex::Compile(pattern).ForEachMatch(
      text, [&](size_t begin, size_t end) { found.push_back(text.substr(begin, end - begin)); });
  return found;
}

TEST(Regex, ReadsRubySyntaxNotPerls) {
  EXPECT_THAT(Matches(R"(\h+)", "xfee1z"), ElementsAre("fee1"));     // hexadecimal digits
  EXPECT_THAT(Matches(R"(^b$)", "a\nb\nc"), ElementsAre("b"));       // always by lines
  EXPECT_THAT(Matches(R"((?m:a.b))", "a\nb"), ElementsAre("a\nb"));  // m: dot takes newlines
  EXPECT_THAT(Matches(R"(a{,2}b)", "aaab"), ElementsAre("aab"));
  EXPECT_THAT(Matches(R"(\d{1,2}+x)", "12345x"), ElementsAre("12345x"));  // not possessive
  EXPECT_THAT(Matches(R"(a++a|aa)", "aaa"), ElementsAre("aa"));           // possessive
  EXPECT_THAT(Matches("\\v", "a\x0B\n"), ElementsAre("\x0B"));            // one character
}

TEST(Regex, ClassesNestAndIntersect) {
  EXPECT_THAT(Matches("[a-z&&[^aeiou]]+", "hello"), ElementsAre("h", "ll"));
  EXPECT_THAT(Matches("[a[xyz]]+", "baxzc"), ElementsAre("axz"));
  EXPECT_THAT(Matches(R"([^\S\n]+)", "a \t\nb"), ElementsAre(" \t"));
  EXPECT_THAT(Matches(R"([\p{L}&&[^\p{Han}]]+)", "ab你c"), ElementsAre("ab", "c"));
  EXPECT_THAT(Matches("[]a]+", "x]a"), ElementsAre("]a"));
}

TEST(Regex, WhiteSpaceAndWordsAreUnicodes) {
  EXPECT_THAT(Matches(R"(\s)", "a\u180E\u3000\u200B"), ElementsAre("\u3000"));
  EXPECT_THAT(Matches(R"(\w+)", "na\u0131ve\u0301_1-"), ElementsAre("na\u0131ve\u0301_1"));
  EXPECT_THAT(Matches(R"(\bis\b)", "this is"), ElementsAre("is"));
}

TEST(Regex, EmptyMatchesDoNotFollowAMatch) {
  EXPECT_THAT(Matches("x*", "axxb"), ElementsAre("", "xx", ""));
}

TEST(Regex, SurvivesVeryLongRuns) {
  const std::string text(300'000, ' ');
  EXPECT_THAT(Matches(R"((?:[\p{Lu}&&[^\p{Han}]]|\s)+$)", text), ElementsAre(text));
}

TEST(Regex, SaysWhatItDoesNotUnderstand) {
  for (const char* pattern :
       {"(", "[a", "\\", "[[:nonsense:]]", R"(\p{Nonsense})", "(?<=a*)", "a{5,2}", R"(\x{zz})"}) {
    try {
      Regex::Compile(pattern);
      ADD_FAILURE() << pattern;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser);
      EXPECT_THAT(error.what(), HasSubstr(pattern));
    }
  }
}

}  // namespace
}  // namespace am::text

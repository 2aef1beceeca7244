#include "common/line_reader.h"

#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

namespace am {
namespace {

using testing::ElementsAre;
using testing::Pair;

std::vector<std::pair<std::string, size_t>> Read(size_t cap,
                                                 const std::vector<std::string>& chunks) {
  std::vector<std::pair<std::string, size_t>> lines;
  LineReader reader(cap, [&](std::string_view line, size_t cut) { lines.emplace_back(line, cut); });
  for (const std::string& chunk : chunks) reader.Feed(chunk);
  reader.Finish();
  return lines;
}

TEST(LineReader, JoinsALineThatComesInPieces) {
  EXPECT_THAT(Read(100, {"a", "b\nc", "\n"}), ElementsAre(Pair("ab", 0), Pair("c", 0)));
}

TEST(LineReader, KeepsTheLastLineThatHasNoNewline) {
  EXPECT_THAT(Read(100, {"a\nrest"}), ElementsAre(Pair("a", 0), Pair("rest", 0)));
  EXPECT_THAT(Read(100, {"a\n"}), ElementsAre(Pair("a", 0)));
}

TEST(LineReader, PassesEmptyLinesAndAnyBytes) {
  std::string nul("x\0y", 3);
  EXPECT_THAT(Read(100, {"\n", nul + "\n", "\x80\xff\n"}),
              ElementsAre(Pair("", 0), Pair(nul, 0), Pair("\x80\xff", 0)));
}

TEST(LineReader, CutsALineBeyondTheCapAndGoesOnWithTheNext) {
  EXPECT_THAT(Read(4, {"abcdef", "gh\nij\n"}), ElementsAre(Pair("abcd", 4), Pair("ij", 0)));
  EXPECT_THAT(Read(4, {std::string(1 << 20, 'x')}), ElementsAre(Pair("xxxx", (1 << 20) - 4)));
}

}  // namespace
}  // namespace am

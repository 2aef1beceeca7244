#include "controller/server/rank_log_reader.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "tests/support/temporary_folder.h"

namespace am::controller {
namespace {

void Append(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::app | std::ios::binary) << bytes;
}

std::string ReadAll(RankLogReader& reader, size_t most = 4) {
  std::string all;
  while (true) {
    absl::StatusOr<std::string> bytes = reader.Read(most);
    EXPECT_TRUE(bytes.ok()) << bytes.status();
    if (!bytes.ok() || bytes->empty()) return all;
    all += *bytes;
  }
}

TEST(RankLog, IsReadOnAsItGrowsWhateverItsBytes) {
  TemporaryFolder folder;
  std::string path = folder / "rank-0.log";
  RankLogReader reader(path, 0);
  EXPECT_EQ(ReadAll(reader), "") << "not there yet";
  std::string bytes("a\0\xff\r\nno newline", 15);
  Append(path, bytes);
  EXPECT_EQ(ReadAll(reader), bytes);
  EXPECT_EQ(ReadAll(reader), "");
  Append(path, "more");
  EXPECT_EQ(ReadAll(reader), "more");
}

TEST(RankLog, OfATailBeginsNearItsEnd) {
  TemporaryFolder folder;
  std::string path = folder / "rank-0.log";
  Append(path, "0123456789");
  RankLogReader reader(path, 3), long_one(path, 100);
  EXPECT_EQ(ReadAll(reader), "789");
  EXPECT_EQ(ReadAll(long_one), "0123456789");
}

TEST(RankLog, ThatIsBegunAnewMeanwhileLosesNothing) {
  TemporaryFolder folder;
  std::string path = folder / "rank-0.log";
  Append(path, "first ");
  RankLogReader reader(path, 0);
  EXPECT_EQ(ReadAll(reader), "first ");
  Append(path, "second ");
  std::rename(path.c_str(), (path + ".1").c_str());
  Append(path, "third");
  EXPECT_EQ(ReadAll(reader), "second third");
  RankLogReader late(path, 0);
  EXPECT_EQ(ReadAll(late), "first second third");
}

}  // namespace
}  // namespace am::controller

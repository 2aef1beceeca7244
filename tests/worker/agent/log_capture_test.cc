#include "worker/agent/log_capture.h"

#include <gmock/gmock.h>

#include <cstdlib>

#include "common/file.h"

namespace am::agent {
namespace {

std::string Folder() {
  std::string path = testing::TempDir() + "/am_log_XXXXXX";
  return mkdtemp(path.data());
}

TEST(LogCapture, RotatesAFileThatGrowsTooLarge) {
  std::string path = Folder() + "/rank-0.log";
  LogCapture log(path, /*max_file_bytes=*/10);
  ASSERT_TRUE(log.Open().ok());
  log.Append("0123456789\n");
  log.Append("new\n");
  EXPECT_EQ(*ReadFile(path + ".1"), "0123456789\n");
  EXPECT_EQ(*ReadFile(path), "new\n");
  EXPECT_THAT(log.last_lines(), testing::ElementsAre("0123456789", "new"));
}

TEST(LogCapture, GoesOnKeepingLinesWhenTheFileCannotBeWritten) {
  LogCapture log("/dev/full");
  ASSERT_TRUE(log.Open().ok());
  log.Append("one\n");
  log.Append("two\n");
  EXPECT_THAT(log.last_lines(), testing::ElementsAre("one", "two"));
}

TEST(LogCapture, NamesAFileThatCannotBeOpened) {
  LogCapture log("/nonexistent/rank-0.log");
  EXPECT_EQ(log.Open().message(),
            "cannot write the log /nonexistent/rank-0.log: No such file or directory");
}

}  // namespace
}  // namespace am::agent

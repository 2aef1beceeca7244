#include "common/file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/support/temporary_folder.h"

namespace am {
namespace {

TEST(File, MakesTheMissingDirectoriesForTheOwnerAlone) {
  TemporaryFolder folder;
  std::string path = folder / "a/b/c";
  ASSERT_TRUE(MakeDirectories(path, 0700).ok());
  ASSERT_TRUE(MakeDirectories(path, 0700).ok());
  struct stat status;
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST(File, NamesTheDirectoryThatCannotBeMade) {
  TemporaryFolder folder;
  std::string path = folder / "file";
  ASSERT_TRUE(WriteFile(path, "x", 0600).ok());
  absl::Status status = MakeDirectories(path + "/below", 0700);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find(path), absl::string_view::npos) << status;
}

TEST(File, ReplacesAFileAsAWhole) {
  TemporaryFolder folder;
  std::string path = folder / "file";
  ASSERT_TRUE(WriteFile(path, "old and long", 0600).ok());
  ASSERT_TRUE(WriteFile(path, "new", 0600).ok());
  auto content = ReadFile(path);
  ASSERT_TRUE(content.ok());
  EXPECT_EQ(*content, "new");
  EXPECT_NE(access((path + ".tmp").c_str(), F_OK), 0);
}

TEST(File, SaysWhatTheSystemSaidOfAFileThatIsNotThere) {
  absl::Status status = ReadFile("/nonexistent/file").status();
  EXPECT_EQ(status.message(), "cannot read /nonexistent/file: No such file or directory");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
}

TEST(File, TakesTheLastPartOfAPath) {
  EXPECT_EQ(Basename("a/b/c"), "c");
  EXPECT_EQ(Basename("a/b/c/"), "c");
  EXPECT_EQ(Basename("c"), "c");
}

}  // namespace
}  // namespace am

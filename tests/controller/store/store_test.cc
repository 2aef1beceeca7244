// One suite for every store, and what only a file can do.
#include "controller/store/store.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>

#include "tests/support/temporary_folder.h"

namespace am::controller {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

std::string File(const TemporaryFolder& folder) { return folder / "state/controller.db"; }

struct Kind {
  const char* name;
  std::function<std::unique_ptr<Store>(const TemporaryFolder&)> open;
};

class StoreTest : public testing::TestWithParam<Kind> {
 protected:
  TemporaryFolder folder_;
  std::unique_ptr<Store> store_ = GetParam().open(folder_);
};

INSTANTIATE_TEST_SUITE_P(
    Kinds, StoreTest,
    testing::Values(Kind{"Memory", [](const TemporaryFolder&) { return MakeMemoryStore(); }},
                    Kind{"Sqlite",
                         [](const TemporaryFolder& folder) {
                           auto store = OpenSqliteStore(File(folder));
                           EXPECT_TRUE(store.ok()) << store.status();
                           return std::move(*store);
                         }}),
    [](const auto& info) { return info.param.name; });

TEST_P(StoreTest, KeepsJobsByAgeAndPutsThemWhole) {
  ASSERT_TRUE(store_->Commit({.jobs = {{.id = "b", .document = "1"}, {.id = "a"}}}).ok());
  ASSERT_TRUE(store_->Commit({.jobs = {{.id = "b", .document = "2"}, {.id = "c"}}}).ok());
  auto state = store_->Load();
  ASSERT_TRUE(state.ok());
  EXPECT_THAT(state->jobs, ElementsAre(Field(&StoredJob::id, "b"), Field(&StoredJob::id, "a"),
                                       Field(&StoredJob::id, "c")));
  EXPECT_EQ(state->jobs[0].document, "2");
}

TEST_P(StoreTest, ListsEndedJobsApart) {
  ASSERT_TRUE(store_->Commit({.jobs = {{.id = "a"}, {.id = "b"}, {.id = "c"}}}).ok());
  ASSERT_TRUE(
      store_->Commit({.jobs = {{.id = "a", .terminal = true}, {.id = "b", .terminal = true}}})
          .ok());
  EXPECT_EQ(store_->Load()->jobs.size(), 1u);
  EXPECT_THAT(*store_->Ended(10),
              ElementsAre(Field(&StoredJob::id, "b"), Field(&StoredJob::id, "a")));
  EXPECT_EQ(store_->Ended(1)->size(), 1u);
  EXPECT_TRUE((*store_->Find("a"))->terminal);
  EXPECT_FALSE(store_->Find("x")->has_value());
}

TEST_P(StoreTest, AClientTokenNamesOneJob) {
  ASSERT_TRUE(store_->Commit({.jobs = {{.id = "a", .client_token = "t"}}}).ok());
  EXPECT_EQ((*store_->FindByToken("t"))->id, "a");
  EXPECT_FALSE(store_->FindByToken("u")->has_value());
  EXPECT_FALSE(store_->Commit({.jobs = {{.id = "z"}, {.id = "b", .client_token = "t"}}}).ok());
  EXPECT_FALSE(store_->Find("z")->has_value()) << "half of a transaction was kept";
}

TEST_P(StoreTest, NumbersEventsAndReadsThemOn) {
  ASSERT_TRUE(store_
                  ->Commit({.events = {{.job = "a", .t_unix_ns = 5, .kind = "phase", .text = "é\n"},
                                       {.job = "b"},
                                       {.job = "a", .json = "{}"}}})
                  .ok());
  auto all = store_->Events("", 0, 100);
  ASSERT_TRUE(all.ok());
  ASSERT_EQ(all->size(), 3u);
  EXPECT_EQ((*all)[0].text, "é\n");
  EXPECT_EQ((*all)[2].seq, 3);
  EXPECT_EQ(store_->Load()->last_seq, 3);
  EXPECT_EQ(store_->Events("a", 1, 100)->size(), 1u);
  EXPECT_EQ(store_->Events("", 0, 2)->size(), 2u);
}

TEST_P(StoreTest, RemembersWhatAnOperatorSaidOfANode) {
  ASSERT_TRUE(store_->Commit({.nodes = {{"n1", true, "fan"}}}).ok());
  ASSERT_TRUE(store_->Commit({.nodes = {{"n1", false, ""}, {"n2", true, "new disk"}}}).ok());
  EXPECT_EQ(store_->Load()->nodes.size(), 2u);
}

TEST_P(StoreTest, LeasesToOneOwnerAtATime) {
  EXPECT_TRUE(*store_->HoldLease("one", 100, 10));
  EXPECT_FALSE(*store_->HoldLease("two", 105, 10));
  EXPECT_TRUE(*store_->HoldLease("one", 105, 10));
  EXPECT_FALSE(*store_->HoldLease("two", 114, 10));
  EXPECT_TRUE(*store_->HoldLease("two", 115, 10));
  EXPECT_FALSE(*store_->HoldLease("one", 116, 10));
}

// ---- the file ----

std::unique_ptr<Store> Open(const TemporaryFolder& folder) {
  auto store = OpenSqliteStore(File(folder));
  EXPECT_TRUE(store.ok()) << store.status();
  return store.ok() ? std::move(*store) : nullptr;
}

TEST(SqliteStore, IsItsOwnersAlone) {
  TemporaryFolder folder;
  Open(folder);
  struct stat file, parent;
  ASSERT_EQ(stat(File(folder).c_str(), &file), 0);
  ASSERT_EQ(stat(fs::path(File(folder)).parent_path().c_str(), &parent), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  EXPECT_EQ(parent.st_mode & 0777, 0700u);
}

TEST(SqliteStore, KeepsWhatWasCommittedWhenItsProcessIsKilled) {
  TemporaryFolder folder;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  pid_t child = fork();
  if (child == 0) {
    auto store = OpenSqliteStore(File(folder));
    for (int i = 0; store.ok(); ++i) {
      std::string id = "job-" + std::to_string(i);
      if (!(*store)->Commit({.jobs = {{.id = id}}, .events = {{.job = id}}}).ok()) break;
      if (write(ready[1], &i, sizeof i) != sizeof i) break;
    }
    _exit(1);
  }
  close(ready[1]);
  int last = -1;
  while (last < 50)
    ASSERT_EQ(read(ready[0], &last, sizeof last), static_cast<ssize_t>(sizeof last));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ready[0]);
  std::unique_ptr<Store> store = Open(folder);
  size_t jobs = store->Load()->jobs.size();
  EXPECT_GT(jobs, static_cast<size_t>(last));
  EXPECT_EQ(store->Events("", 0, 1 << 20)->size(), jobs);
}

TEST(SqliteStore, RefusesANewerFile) {
  TemporaryFolder folder;
  Open(folder);
  // The header field user_version: big-endian, at byte 60.
  std::fstream file(File(folder), std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(60);
  file.write("\0\0\x03\xe8", 4);
  file.close();
  auto store = OpenSqliteStore(File(folder));
  EXPECT_EQ(store.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(store.status().message()), HasSubstr("newer controller (schema 1000"));
}

TEST(SqliteStore, RefusesADamagedFileWithWhatToDo) {
  TemporaryFolder folder;
  fs::create_directories(fs::path(File(folder)).parent_path());
  std::ofstream(File(folder))
      << "this is a text file, and long enough to have a header of its own: "
         "one hundred bytes are what SQLite looks at before it says no";
  auto store = OpenSqliteStore(File(folder));
  EXPECT_EQ(store.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(store.status().message()), HasSubstr("move the file away"));
}

TEST(SqliteStore, MayBeReadByAStandbyMeanwhile) {
  TemporaryFolder folder;
  std::unique_ptr<Store> leader = Open(folder), standby = Open(folder);
  ASSERT_TRUE(*leader->HoldLease("leader", 100, 10));
  ASSERT_TRUE(leader->Commit({.jobs = {{.id = "a"}}}).ok());
  EXPECT_FALSE(*standby->HoldLease("standby", 105, 10));
  EXPECT_TRUE(*standby->HoldLease("standby", 111, 10));
  EXPECT_EQ(standby->Load()->jobs.size(), 1u);
}

}  // namespace
}  // namespace am::controller

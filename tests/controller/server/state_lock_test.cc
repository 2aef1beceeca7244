#include "controller/server/state_lock.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace am::controller {
namespace {

TEST(StateLock, IsHeldByOneUntilItIsLetGo) {
  TemporaryFolder folder;
  std::optional<UniqueFd> first = *TryLock(folder / "lock");
  ASSERT_TRUE(first);
  EXPECT_FALSE(*TryLock(folder / "lock"));
  first.reset();
  EXPECT_TRUE(*TryLock(folder / "lock"));
  EXPECT_FALSE(TryLock(folder / "no/such/folder").ok());
}

TEST(LeaseOwner, IsTheSameForEveryProcessOfThisHost) {
  EXPECT_EQ(LeaseOwner(), LeaseOwner());
  EXPECT_NE(LeaseOwner().find('/'), std::string::npos);
}

}  // namespace
}  // namespace am::controller

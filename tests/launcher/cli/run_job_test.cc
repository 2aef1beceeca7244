#include "launcher/cli/run_job.h"

#include <gtest/gtest.h>

namespace am::cli {
namespace {

using std::chrono::seconds;

TEST(Signals, TheSecondShortensTheGraceAndTheThirdEndsIt) {
  TimePoint now{std::chrono::hours(1)};
  EXPECT_EQ(LeaveBy(1, now, seconds(60)), now + seconds(60));
  EXPECT_EQ(LeaveBy(2, now, seconds(60)), now + seconds(5));
  EXPECT_EQ(LeaveBy(2, now, seconds(3)), now + seconds(3));
  EXPECT_EQ(LeaveBy(3, now, seconds(60)), now);
  EXPECT_EQ(LeaveBy(9, now, seconds(60)), now);
}

}  // namespace
}  // namespace am::cli

#include "launcher/cli/run_job.h"

#include <gtest/gtest.h>

namespace am::cli {
namespace {

using controller::Failure;
using controller::FailureKind;
using controller::Job;
using controller::JobPhase;
using std::chrono::seconds;

Job In(JobPhase phase, std::optional<FailureKind> kind = {}) {
  Job job;
  job.status.phase = phase;
  if (kind) job.status.failure = Failure{.kind = *kind};
  return job;
}

TEST(ExitStatus, SaysHowTheJobEnded) {
  EXPECT_EQ(ExitStatusOf(In(JobPhase::kSucceeded), false), 0);
  EXPECT_EQ(ExitStatusOf(In(JobPhase::kSucceeded), true), 0)
      << "it was done before Ctrl-C reached it";
  EXPECT_EQ(ExitStatusOf(In(JobPhase::kPending), false), 75);
  EXPECT_EQ(ExitStatusOf(In(JobPhase::kPending), true), 130);
  EXPECT_EQ(ExitStatusOf(In(JobPhase::kCancelled), false), 5);
  EXPECT_EQ(ExitStatusOf(In(JobPhase::kFailed, FailureKind::kUser), false), 2);
  EXPECT_EQ(ExitStatusOf(In(JobPhase::kFailed, FailureKind::kRank), false), 1);
  EXPECT_EQ(ExitStatusOf(In(JobPhase::kFailed, FailureKind::kSignal), false), 6);
  EXPECT_EQ(ExitStatusOf(In(JobPhase::kFailed, FailureKind::kPeerLost), false), 6);
  EXPECT_EQ(ExitStatusOf(In(JobPhase::kFailed, FailureKind::kNotStarted), false), 6);
  EXPECT_EQ(ExitStatusOf(In(JobPhase::kFailed, FailureKind::kAgentLost), false), 6);
}

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

#include "launcher/cli/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <ostream>
#include <sstream>

#include "launcher/cli/progress_output.h"

namespace am::cli {
namespace {

using testing::HasSubstr;

RankEvent Step(int64_t step, double seconds) {
  return {.type = RankEventType::kStep,
          .fields = {{"step", step}, {"loss", 1.25}, {"tps", 6924.4}, {"step_s", seconds}}};
}

TEST(Progress, ShowsStepLossSpeedAndTimeLeft) {
  Progress progress;
  EXPECT_EQ(progress.LiveLine(80), "");
  progress.Update({.type = RankEventType::kReady, .fields = {{"step", 0}, {"total_steps", 100}}});
  EXPECT_EQ(progress.LiveLine(80), "ready");
  progress.Update(Step(10, 0.5));
  EXPECT_EQ(progress.LiveLine(80), "step 10/100 | loss 1.2500 | 6924 tokens/s | 0:45 left");
  EXPECT_EQ(progress.LiveLine(11), "step 10/100");
}

TEST(Progress, DoesNotGuessAnEndThatItDoesNotKnow) {
  Progress progress;
  progress.Update(Step(10, 0.5));
  EXPECT_EQ(progress.LiveLine(80), "step 10 | loss 1.2500 | 6924 tokens/s");
}

TEST(Progress, SmoothsTheTimeLeft) {
  Progress progress(110);
  progress.Update(Step(9, 1));
  progress.Update(Step(10, 2));
  EXPECT_THAT(progress.LiveLine(80), HasSubstr("2:00 left"));
}

TEST(Progress, WritesTimesAsPeopleDo) {
  EXPECT_EQ(FormatTime(0.2), "0:01");
  EXPECT_EQ(FormatTime(725), "12:05");
  EXPECT_EQ(FormatTime(11229), "3:07:09");
}

TEST(ForDisplay, ShowsAnyBytesOnATerminal) {
  EXPECT_EQ(ForDisplay("plain \xC3\xA9 text\t|"), "plain \xC3\xA9 text\t|");
  EXPECT_EQ(ForDisplay("10%\r20%\r"), "20%");
  EXPECT_EQ(ForDisplay("cut \xC3"), "cut \xEF\xBF\xBD");
  EXPECT_EQ(ForDisplay("\x80\xE0\x80\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(ForDisplay("\x1b[31mred"), "\xEF\xBF\xBD[31mred");
  EXPECT_EQ(ForDisplay(std::string("a\0b", 3)),
            "a\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(ForDisplay(std::string(1000, 'x'), 4), "xxxx…");
}

TEST(ProgressOutput, WritesLinesAndMessagesToTheirStreams) {
  std::ostringstream out, err;
  {
    ProgressOutput output(out, err, {});
    output.Line("step 1");
    output.Message("warning");
    output.Live("not shown");
    output.Line("step 2");
  }
  EXPECT_EQ(out.str(), "step 1\nstep 2\n");
  EXPECT_EQ(err.str(), "warning\n");
}

TEST(ProgressOutput, SaysOnceThatNobodyReadsItsLines) {
  std::ostringstream err;
  struct Nobody : std::streambuf {
  } nobody;  // refuses every byte
  std::ostream closed(&nobody);
  {
    ProgressOutput output(closed, err, {.lines_are_in = "c/training.jsonl"});
    output.Line("step 1");
    output.Line("step 2");
    output.Message("still here");
  }
  EXPECT_THAT(
      err.str(),
      HasSubstr(
          "standard output was closed; the training goes on, its lines are in c/training.jsonl\n"));
  EXPECT_THAT(err.str(), HasSubstr("still here\n"));
  EXPECT_EQ(err.str().find("closed"), err.str().rfind("closed"));
}

TEST(ProgressOutput, KeepsALiveLineBelowTheOthersAndErasesItAtTheEnd) {
  std::ostringstream out, err;
  {
    ProgressOutput output(out, err, {.live = true});
    output.Live("step 1/2");
    output.Line("step 1 | …");
  }
  EXPECT_EQ(out.str(), "step 1 | …\n");
  std::string shown = err.str();
  if (!shown.empty()) {
    EXPECT_EQ(shown.substr(shown.size() - 4), "\r\x1b[K") << "nothing is left of it";
  }
}

}  // namespace
}  // namespace am::cli

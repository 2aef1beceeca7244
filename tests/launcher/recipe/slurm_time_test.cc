#include "launcher/recipe/slurm_time.h"

#include <gtest/gtest.h>

namespace am::recipe {
namespace {

TEST(SlurmTime, ReadsEveryDocumentedForm) {
  struct {
    const char* text;
    int64_t seconds;
    const char* written;
    const char* words;
  } const kCases[] = {
      {"90", 90 * 60, "01:30:00", "1 h 30 min"},
      {"4:00", 4 * 60, "00:04:00", "4 min"},
      {"90:30", 90 * 60 + 30, "01:30:30", "1 h 30 min 30 s"},
      {"04:00:00", 4 * 3600, "04:00:00", "4 h"},
      {"36:00:00", 36 * 3600, "1-12:00:00", "1 d 12 h"},
      {"2-12", 60 * 3600, "2-12:00:00", "2 d 12 h"},
      {"3-0", 3 * 86400, "3-00:00:00", "3 d"},
      {"3-0:00", 3 * 86400, "3-00:00:00", "3 d"},
      {"0-0:30", 30 * 60, "00:30:00", "30 min"},
      {"1-02:03:04", 86400 + 2 * 3600 + 3 * 60 + 4, "1-02:03:04", "1 d 2 h 3 min 4 s"},
  };
  for (const auto& c : kCases) {
    std::optional<SlurmTime> time = ParseSlurmTime(c.text);
    ASSERT_TRUE(time) << c.text;
    EXPECT_EQ(time->seconds, c.seconds) << c.text;
    EXPECT_EQ(ToString(*time), c.written) << c.text;
    EXPECT_EQ(ToWords(*time), c.words) << c.text;
    EXPECT_EQ(ParseSlurmTime(ToString(*time)), time) << c.text;
  }
}

TEST(SlurmTime, HasWordsForNoLimit) {
  for (const char* text : {"infinite", "INFINITE", "Unlimited", "-1", "0", "00:00:00"}) {
    std::optional<SlurmTime> time = ParseSlurmTime(text);
    ASSERT_TRUE(time) << text;
    EXPECT_FALSE(time->seconds) << text;
    EXPECT_EQ(ToString(*time), "UNLIMITED");
    EXPECT_EQ(ToWords(*time), "no limit");
  }
}

TEST(SlurmTime, WhatCannotBeReadIsNeverNoLimit) {
  for (const char* text :
       {"", "90m", "4h", "1:2:3:4", "1-", "-5", "1-2-3", "1:", ":30", "a", "1.5", "1d", "1-2:3:4:5",
        " 5", "5 ", "0x10", "1_000", "99999999999999999999", "inf", "+5"}) {
    EXPECT_FALSE(ParseSlurmTime(text)) << text;
  }
}

TEST(SlurmTime, SaysWhatWasProbablyMeant) {
  EXPECT_EQ(SlurmTimeHint("90m"), "write 01:30:00");
  EXPECT_EQ(SlurmTimeHint("4h"), "write 04:00:00");
  EXPECT_EQ(SlurmTimeHint("2d"), "write 2-00:00:00");
  EXPECT_EQ(SlurmTimeHint("soon"), "");
  EXPECT_EQ(SlurmTimeHint(""), "");
}

}  // namespace
}  // namespace am::recipe

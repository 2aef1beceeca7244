#include "launcher/recipe/scalar.h"

#include <gtest/gtest.h>

namespace am::recipe {
namespace {

TEST(Scalar, IntegersAreDecimalOrHexadecimalAndNeverOctal) {
  EXPECT_EQ(ParseInt("8"), 8);
  EXPECT_EQ(ParseInt("-8"), -8);
  EXPECT_EQ(ParseInt("+8"), 8);
  EXPECT_EQ(ParseInt("0"), 0);
  EXPECT_EQ(ParseInt("1_000"), 1000);
  EXPECT_EQ(ParseInt("0x10"), 16);
  EXPECT_EQ(ParseInt("1e3"), 1000);
  EXPECT_EQ(ParseInt("8.0"), 8);
  for (const char* text : {"", "017", "0o17", "12:30:00", "8.5", "1e400", "_8", "8_", "--8", "0x",
                           "eight", "8 ", "9223372036854775808", "nan"}) {
    EXPECT_FALSE(ParseInt(text)) << text;
  }
  EXPECT_EQ(ParseInt("9223372036854775807"), INT64_MAX);
}

TEST(Scalar, FloatsNeedNoDot) {
  EXPECT_EQ(ParseFloat("1e-5"), 1e-5);
  EXPECT_EQ(ParseFloat("1.0e5"), 1e5);
  EXPECT_EQ(ParseFloat(".5"), 0.5);
  EXPECT_EQ(ParseFloat("-3."), -3.0);
  EXPECT_EQ(ParseFloat("+1"), 1.0);
  for (const char* text : {"", "inf", "nan", ".inf", "1e400", "1,5", "1e", "e5", "- 1", "1.0f"}) {
    EXPECT_FALSE(ParseFloat(text)) << text;
  }
}

TEST(Scalar, BoolsAreThoseOfYaml11InAnyCase) {
  for (const char* text : {"true", "True", "YES", "on"}) EXPECT_EQ(ParseBool(text), true) << text;
  for (const char* text : {"false", "No", "OFF"}) EXPECT_EQ(ParseBool(text), false) << text;
  for (const char* text : {"1", "0", "y", "", "t"}) EXPECT_FALSE(ParseBool(text)) << text;
}

TEST(Scalar, DtypesHaveOneSpelling) {
  for (const char* text : {"bf16", "bfloat16", "torch.bfloat16", "BFloat16"}) {
    EXPECT_EQ(ParseDtype(text), "bfloat16") << text;
  }
  EXPECT_EQ(ParseDtype("auto"), "auto");
  EXPECT_FALSE(ParseDtype("float13"));
}

TEST(Scalar, FreeValuesFollowYaml12AndKeepTextThatOnlyLooksLikeANumber) {
  auto typed = [](const char* text) {
    Value value{.data = TypeFreely(text)};
    return ToJson(value).dump();
  };
  EXPECT_EQ(typed("8"), "8");
  EXPECT_EQ(typed("1e-5"), "1e-05");
  EXPECT_EQ(typed("true"), "true");
  EXPECT_EQ(typed("on"), "\"on\"");
  EXPECT_EQ(typed("None"), "null");
  EXPECT_EQ(typed("12:30:00"), "\"12:30:00\"");
  EXPECT_EQ(typed("007"), "\"007\"");
  EXPECT_EQ(typed("1_000"), "\"1_000\"");
  EXPECT_EQ(typed("1.2.3"), "\"1.2.3\"");
}

}  // namespace
}  // namespace am::recipe

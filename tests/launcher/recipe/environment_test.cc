#include "launcher/recipe/environment.h"

#include <gtest/gtest.h>

namespace am::recipe {
namespace {

std::optional<std::string> Variables(const std::string& name) {
  if (name == "HOST") return "node7";
  if (name == "a.b.c") return "dotted";
  if (name == "EMPTY") return "";
  return std::nullopt;
}

struct Case {
  const char* text;
  const char* expanded;
  bool used;
  const char* unset;  // null: none
};

TEST(Environment, ExpandsTheFormsThatRecipesUse) {
  const Case kCases[] = {
      {"plain", "plain", false, nullptr},
      {"${HOST}", "node7", true, nullptr},
      {"a/${HOST}/b", "a/node7/b", true, nullptr},
      {"${oc.env:HOST}", "node7", true, nullptr},
      {"${NOPE,fallback}", "fallback", true, nullptr},
      {"${oc.env:NOPE,result/wandb}", "result/wandb", true, nullptr},
      {"${NOPE, spaced }", "spaced", true, nullptr},
      {"${HOST,unused}", "node7", true, nullptr},
      {"${EMPTY}", "", true, nullptr},
      {"$HOST", "node7", true, nullptr},
      {"$HOST/x", "node7/x", true, nullptr},
      {"$a.b.c", "dotted", true, nullptr},
      {"see $HOST.", "see node7.", true, nullptr},
      {"${NOPE}", "${NOPE}", true, "NOPE"},
      {"$NOPE $ALSO", "$NOPE $ALSO", true, "NOPE"},
      {"$$HOST", "$HOST", false, nullptr},
      {"$$$HOST", "$node7", true, nullptr},
      {"costs $5", "costs $5", false, nullptr},
      {"ends in $", "ends in $", false, nullptr},
      {"${not a name}", "${not a name}", false, nullptr},
      {"${unclosed", "${unclosed", false, nullptr},
      {".*proj$", ".*proj$", false, nullptr},
  };
  for (const Case& c : kCases) {
    Expansion got = Expand(c.text, Variables);
    EXPECT_EQ(got.text, c.expanded) << c.text;
    EXPECT_EQ(got.used, c.used) << c.text;
    EXPECT_EQ(got.unset.value_or(""), c.unset ? c.unset : "") << c.text;
  }
}

}  // namespace
}  // namespace am::recipe

#include "launcher/cli/run_words.h"

#include <gmock/gmock.h>

namespace am::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

RunWords Parse(const std::vector<std::string>& words) {
  absl::StatusOr<RunWords> parsed = ParseRunWords(words);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.value_or(RunWords{});
}

std::string Complaint(const std::vector<std::string>& words) {
  absl::StatusOr<RunWords> parsed = ParseRunWords(words);
  EXPECT_FALSE(parsed.ok());
  return std::string(parsed.status().message());
}

TEST(RunWords, TakesOptionsInBothFormsAndAnyOrder) {
  RunWords words = Parse({"--nproc-per-node", "2", "r.yaml", "--cluster=local", "--fresh",
                          "--strict", "--state-dir", "/x"});
  EXPECT_EQ(words.recipe, "r.yaml");
  EXPECT_EQ(words.nproc_per_node, 2);
  EXPECT_EQ(words.cluster, "local");
  EXPECT_TRUE(words.fresh);
  EXPECT_TRUE(words.strict);
  EXPECT_EQ(words.state_dir, "/x");
  EXPECT_THAT(words.overrides, IsEmpty());
  EXPECT_EQ(Parse({"r.yaml", "--nproc_per_node=3"}).nproc_per_node, 3);
}

TEST(RunWords, LeavesOverridesToTheRecipeInEveryForm) {
  EXPECT_THAT(
      Parse({"r.yaml", "--optimizer.lr=1e-4", "--peft.dim", "16", "dataset.split=train", "--peft-"})
          .overrides,
      ElementsAre("--optimizer.lr=1e-4", "--peft.dim", "16", "dataset.split=train", "--peft-"));
}

TEST(RunWords, AnOverrideWithoutValueIsTrue) {
  EXPECT_THAT(Parse({"r.yaml", "--checkpoint.enabled", "--fresh", "optimizer.lr=1"}).overrides,
              ElementsAre("--checkpoint.enabled=true", "optimizer.lr=1"));
  EXPECT_THAT(Parse({"r.yaml", "--checkpoint.enabled"}).overrides,
              ElementsAre("--checkpoint.enabled=true"));
}

TEST(RunWords, AnOverrideTakesTheNextWordThoughItLooksLikeARecipe) {
  RunWords words = Parse({"--checkpoint.checkpoint_dir", "out", "r.yaml"});
  EXPECT_EQ(words.recipe, "r.yaml");
  EXPECT_THAT(words.overrides, ElementsAre("--checkpoint.checkpoint_dir", "out"));
  EXPECT_THAT(Parse({"r.yaml", "--optimizer.weight_decay", "-1"}).overrides,
              ElementsAre("--optimizer.weight_decay", "-1"));
}

TEST(RunWords, SaysWhatIsWrongAndWhatWasMeant) {
  EXPECT_EQ(Complaint({}), "no recipe was given");
  EXPECT_THAT(Complaint({"r.yaml", "--nproc-per-nod", "2"}),
              HasSubstr("unknown option --nproc-per-nod; did you mean nproc-per-node?"));
  EXPECT_THAT(Complaint({"r.yaml", "--nproc-per-node", "two"}), HasSubstr("not 'two'"));
  EXPECT_THAT(Complaint({"r.yaml", "--nproc-per-node", "0"}), HasSubstr("not '0'"));
  EXPECT_THAT(Complaint({"r.yaml", "--nproc-per-node"}), HasSubstr("needs a value"));
  EXPECT_THAT(Complaint({"r.yaml", "--fresh=yes"}), HasSubstr("takes no value"));
  EXPECT_THAT(Complaint({"r.yaml", "other.yaml"}), HasSubstr("not also 'other.yaml'"));
  EXPECT_THAT(Complaint({"r.yaml", "-x"}), HasSubstr("unknown option -x"));
}

}  // namespace
}  // namespace am::cli

#include "launcher/cli/words.h"

#include <gmock/gmock.h>

namespace am::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Option kOptions[] = {
    {"nodes", "N", "so many"},
    {"nproc-per-node", "N", "ranks", "gpus-per-node"},
    {"what-if", "X", "try it"},
    {"strict", "", "warnings are errors"},
};
const Command kCommand = {.name = "try", .usage = "try", .options = kOptions, .overrides = true};
const Command kPlainCommand = {.name = "see", .usage = "see", .options = kOptions};

Words Split(const std::vector<std::string>& words) {
  absl::StatusOr<Words> split = SplitWords(kCommand, words);
  EXPECT_TRUE(split.ok()) << split.status();
  return split.value_or(Words{});
}

std::string Complaint(const std::vector<std::string>& words, const Command& command = kCommand) {
  absl::StatusOr<Words> split = SplitWords(command, words);
  EXPECT_FALSE(split.ok());
  return std::string(split.status().message());
}

std::vector<std::string> Overrides(const Words& words) {
  std::vector<std::string> texts;
  for (const recipe::Override& override : words.overrides) {
    texts.push_back(override.key + (override.remove ? "-" : "=" + override.value));
  }
  return texts;
}

TEST(Words, OptionsOverridesAndRecipesMayStandInAnyOrder) {
  Words words = Split({"--peft.dim", "4", "a.yaml", "--nodes=2", "seed=7", "--gpus_per_node", "8",
                       "b.yaml", "--peft-", "--strict"});
  EXPECT_THAT(words.plain, ElementsAre("a.yaml", "b.yaml"));
  EXPECT_EQ(*words.Count("nodes"), 2);
  EXPECT_EQ(*words.Count("nproc-per-node"), 8) << "by its other name, too";
  EXPECT_TRUE(words.Has("strict"));
  EXPECT_FALSE(words.Has("what-if"));
  EXPECT_THAT(Overrides(words), ElementsAre("peft.dim=4", "seed=7", "peft-"));
}

TEST(Words, TheLastOfAnOptionCountsAndAllOfThemCanBeHad) {
  Words words = Split({"--what-if", "a", "--what-if=b=c", "--nodes", "1", "--nodes", "3"});
  EXPECT_EQ(words.Value("what-if"), "b=c");
  EXPECT_THAT(words.Values("what-if"), ElementsAre("a", "b=c"));
  EXPECT_EQ(*words.Count("nodes"), 3);
}

TEST(Words, AKnownOptionIsNeverTakenForAnOverride) {
  Words words = Split({"r.yaml", "--nodes", "2", "optimizer.lr=3"});
  EXPECT_EQ(*words.Count("nodes"), 2);
  EXPECT_THAT(Overrides(words), ElementsAre("optimizer.lr=3"));
}

TEST(Words, AnOverrideWithoutValueIsTrue) {
  EXPECT_THAT(Overrides(Split({"--checkpoint.enabled", "--strict", "optimizer.lr=1"})),
              ElementsAre("checkpoint.enabled=true", "optimizer.lr=1"));
  EXPECT_THAT(Overrides(Split({"--checkpoint.enabled"})), ElementsAre("checkpoint.enabled=true"));
}

TEST(Words, AnOverrideTakesTheNextWordThoughItLooksLikeARecipe) {
  Words words = Split({"--checkpoint.checkpoint_dir", "out", "r.yaml"});
  EXPECT_THAT(words.plain, ElementsAre("r.yaml"));
  EXPECT_THAT(Overrides(words), ElementsAre("checkpoint.checkpoint_dir=out"));
  EXPECT_THAT(Overrides(Split({"--optimizer.weight_decay", "-1"})),
              ElementsAre("optimizer.weight_decay=-1"));
}

TEST(Words, APathMayHoldAnEqualsSign) {
  EXPECT_THAT(Split({"./lr=3/r.yaml"}).plain, ElementsAre("./lr=3/r.yaml"));
  EXPECT_THAT(Split({"--", "lr=3.yaml", "--nodes"}).plain, ElementsAre("lr=3.yaml", "--nodes"));
}

TEST(Words, SayWhatIsWrongAndWhatWasMeant) {
  EXPECT_EQ(Complaint({"--stric"}), "unknown option --stric; did you mean --strict?");
  EXPECT_EQ(Complaint({"--optimzer.lr=1"}),
            "unknown option --optimzer.lr; did you mean --optimizer.lr?");
  EXPECT_EQ(Complaint({"train.lr=3"}),
            "train.lr=3: train is no section of a recipe; see amctl explain");
  EXPECT_EQ(Complaint({"optimzer.lr=3"}),
            "optimzer.lr=3: optimzer is no section of a recipe; did you mean optimizer.lr?");
  EXPECT_EQ(Complaint({"--frobnicate"}),
            "unknown option --frobnicate; an override begins with a section of the recipe");
  EXPECT_THAT(Complaint({"-x"}), HasSubstr("unknown option -x"));
  EXPECT_EQ(Complaint({"--nodes"}), "--nodes needs a value");
  EXPECT_EQ(Complaint({"--nodes", "--strict"}), "--nodes needs a value");
  EXPECT_EQ(Complaint({"--strict=1"}), "--strict takes no value");
  for (const char* count : {"0", "two", "-1", "2x", "99999999999", "1.5"}) {
    EXPECT_EQ(Split({"--nodes", count}).Count("nodes").status().message(),
              std::string("--nodes: expected an integer of at least 1, got ") + count);
  }
}

TEST(Words, OfACommandWithoutRecipeAreNoOverrides) {
  EXPECT_THAT(Complaint({"--optimizer.lr=1"}, kPlainCommand),
              HasSubstr("unknown option --optimizer.lr"));
  absl::StatusOr<Words> words = SplitWords(kPlainCommand, {"optimizer.lr=1"});
  ASSERT_TRUE(words.ok());
  EXPECT_THAT(words->plain, ElementsAre("optimizer.lr=1"));
}

TEST(Words, ACommandOfOneRecipeTakesOne) {
  EXPECT_EQ(TheRecipe(Split({})).status().message(), "no recipe was given");
  EXPECT_THAT(std::string(TheRecipe(Split({"a.yaml", "b.yaml"})).status().message()),
              HasSubstr("not also b.yaml"));
  EXPECT_EQ(*TheRecipe(Split({"a.yaml"})), "a.yaml");
}

TEST(Help, IsPrintedFromTheTable) {
  const Command command = {.name = "try",
                           .summary = "try a thing",
                           .usage = "try RECIPE [options]",
                           .about = "Tries it.",
                           .options = kOptions,
                           .examples = "  amctl try r.yaml"};
  EXPECT_EQ(HelpText(command),
            "usage: amctl try RECIPE [options]\n"
            "\n"
            "Tries it.\n"
            "\n"
            "  --nodes N            so many\n"
            "  --nproc-per-node N   ranks\n"
            "  --what-if X          try it\n"
            "  --strict             warnings are errors\n"
            "\n"
            "Examples:\n"
            "  amctl try r.yaml\n");
}

TEST(Help, OfEveryCommandFitsTheScreenAndNamesEachOption) {
  for (const Command* command : {&kRunCommand, &kValidateCommand, &kPlanCommand, &kPrintCommand,
                                 &kExplainCommand, &kSchemaCommand, &kVersionCommand}) {
    std::istringstream lines(HelpText(*command));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 108u) << line;
    for (const Option& option : command->options) {
      EXPECT_FALSE(option.help.empty()) << option.name;
      EXPECT_EQ(option.name.find('_'), std::string_view::npos) << option.name;
    }
    EXPECT_TRUE(command->run);
  }
}

}  // namespace
}  // namespace am::cli

#include "launcher/plan/what_if.h"

#include "tests/launcher/plan/plans.h"

namespace am::plan {
namespace {

constexpr char kModel[] = "meta-llama/Llama-3.1-8B";

absl::StatusOr<Cluster> Find(const std::string& name) {
  return FindCluster(name, [] { return Machine(); });
}

std::vector<Outcome> AskAll(const std::string& sections, const std::vector<std::string>& texts) {
  std::vector<WhatIf> questions;
  for (const std::string& text : texts) {
    auto question = ParseWhatIf(text);
    EXPECT_TRUE(question.ok()) << question.status();
    if (question.ok()) questions.push_back(*question);
  }
  auto outcomes = Ask(testing::BenchmarkRecipe(kModel, sections), testing::ClusterOf("dgx-h100"),
                      {.nodes = 2, .model = testing::KnownModel(kModel)}, questions, Find);
  EXPECT_TRUE(outcomes.ok()) << outcomes.status();
  return outcomes.ok() ? *std::move(outcomes) : std::vector<Outcome>();
}

TEST(WhatIf, AsksForNodesGpusAndLengthsInAllCombinations) {
  std::vector<Outcome> outcomes =
      AskAll("step_scheduler: {global_batch_size: 128}", {"nodes=2,4", "seq=4096,8192"});
  ASSERT_EQ(outcomes.size(), 5u);
  EXPECT_EQ(outcomes[0].what, "as it is");
  EXPECT_EQ(outcomes[4].what, "nodes 4, seq 8192");
  for (const Outcome& outcome : outcomes) {
    ASSERT_TRUE(outcome.result.plan) << outcome.what;
    EXPECT_TRUE(outcome.result.plan->estimates.step_time) << outcome.what;
  }
  EXPECT_EQ(outcomes[3].result.plan->dims.world(), 32);
  EXPECT_EQ(outcomes[4].result.plan->seq_length, 8192);
  EXPECT_DOUBLE_EQ(outcomes[1].result.plan->estimates.step_time->seconds,
                   outcomes[0].result.plan->estimates.step_time->seconds)
      << "two nodes are what there is";
  EXPECT_LT(outcomes[3].result.plan->estimates.step_time->seconds,
            outcomes[1].result.plan->estimates.step_time->seconds)
      << "more nodes are quicker";
}

TEST(WhatIf, AnotherGpuKeepsTheNumberOfGpus) {
  std::vector<Outcome> outcomes =
      AskAll("step_scheduler: {global_batch_size: 128}", {"gpu=gb200-nvl72"});
  ASSERT_EQ(outcomes.size(), 2u);
  ASSERT_TRUE(outcomes[1].result.plan);
  EXPECT_EQ(outcomes[1].result.plan->dims.world(), 16);
  EXPECT_EQ(outcomes[1].result.plan->nodes, 4);
  EXPECT_LT(outcomes[1].result.plan->estimates.step_time->seconds,
            outcomes[0].result.plan->estimates.step_time->seconds);
}

TEST(WhatIf, ARowThatIsRefusedSaysWhy) {
  std::vector<Outcome> outcomes = AskAll("step_scheduler: {global_batch_size: 128}", {"nodes=3"});
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_FALSE(outcomes[1].result.plan);
  std::string text = ToText(outcomes);
  EXPECT_NE(text.find("128 is not divisible"), std::string::npos) << text;
  EXPECT_NE(ToJson(outcomes)[1]["error"], nullptr);
}

TEST(WhatIf, RefusesWhatItDoesNotUnderstand) {
  for (const char* text : {"nodes", "nodes=", "nodes=0", "nodes=2,,4", "seq=long", "cpu=4", "=4",
                           "nodes=99999999999"}) {
    EXPECT_FALSE(ParseWhatIf(text).ok()) << text;
  }
  EXPECT_FALSE(Ask(testing::BenchmarkRecipe(kModel, ""), testing::ClusterOf("dgx-h100"), {},
                   {*ParseWhatIf("gpu=no-such-cluster")}, Find)
                   .ok());
}

}  // namespace
}  // namespace am::plan

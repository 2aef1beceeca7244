#include "launcher/plan/batch.h"

#include "launcher/plan/arithmetic.h"
#include "tests/launcher/plan/recipes.h"

namespace am::plan {
namespace {

struct Case {
  const char* sections;
  int dp;
  int64_t global, local, accumulation;  // 0: refused
};

TEST(Batch, BothSpellingsGiveTheSameNumbers) {
  const Case kCases[] = {
      {"", 1, 32, 1, 32},
      {"", 8, 32, 1, 4},
      {"step_scheduler: {global_batch_size: 32, local_batch_size: 4}", 2, 32, 4, 4},
      {"step_scheduler: {grad_acc_steps: 4}\ndataloader: {batch_size: 4}", 2, 32, 4, 4},
      {"step_scheduler: {grad_acc_steps: 4}", 2, 8, 1, 4},
      {"step_scheduler: {global_batch_size: 32}\ndataloader: {batch_size: 4}", 2, 32, 4, 4},
      {"step_scheduler: {global_batch_size: 32, grad_acc_steps: 4, local_batch_size: 4}", 2, 32, 4,
       4},
      {"step_scheduler: {local_batch_size: 4}\ndataloader: {batch_size: 4}", 8, 32, 4, 1},
      {"step_scheduler: {local_batch_size: 4}\ndataloader: {batch_size: null}", 8, 32, 4, 1},
      // refused
      {"step_scheduler: {global_batch_size: 30, local_batch_size: 4}", 2, 0, 0, 0},
      {"step_scheduler: {global_batch_size: 31, grad_acc_steps: 4, local_batch_size: 4}", 2, 0, 0,
       0},
      {"step_scheduler: {local_batch_size: 4}\ndataloader: {batch_size: 8}", 2, 0, 0, 0},
      {"", 3, 0, 0, 0},
  };
  for (const Case& c : kCases) {
    recipe::Diagnostics out;
    std::optional<Batch> batch = ResolveBatch(testing::SmallRecipe(c.sections), c.dp, out);
    ASSERT_EQ(batch.has_value(), c.global != 0) << c.sections << recipe::RenderText(out);
    EXPECT_EQ(recipe::HasErrors(out), c.global == 0) << c.sections;
    if (!batch) continue;
    EXPECT_EQ(batch->global_batch_size, c.global) << c.sections;
    EXPECT_EQ(batch->local_batch_size, c.local) << c.sections;
    EXPECT_EQ(batch->grad_acc_steps, c.accumulation) << c.sections;
    EXPECT_FALSE(batch->reason.empty());
  }
}

TEST(Arithmetic, NamesTheNearestLegalNumbers) {
  EXPECT_EQ(DivisorsOf(32), (std::vector<int64_t>{1, 2, 4, 8, 16, 32}));
  EXPECT_EQ(DivisorsOf(9), (std::vector<int64_t>{1, 3, 9}));
  EXPECT_EQ(NearestMultiples(30, 8), (std::vector<int64_t>{24, 32}));
  EXPECT_EQ(NearestMultiples(5, 8), (std::vector<int64_t>{8}));
  EXPECT_EQ(OrList({1, 2, 4}), "1, 2 or 4");
  EXPECT_EQ(OrList({7}), "7");
  EXPECT_EQ(OrList(DivisorsOf(4096), 4), "1, 2, 4 or 4096");
}

}  // namespace
}  // namespace am::plan

#include "worker/engine/optim/lr_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "common/error.h"

namespace am::engine {
namespace {

constexpr double kBase = 1e-3;

LrSchedulerSpec Spec(const std::string& style, std::optional<int64_t> warmup = std::nullopt) {
  LrSchedulerSpec spec;
  spec.lr_decay_style = style;
  spec.lr_warmup_steps = warmup;
  return spec;
}

TEST(LrScheduleTest, IsConstantWithoutASpec) {
  const LrSchedule schedule(std::nullopt, kBase, 0.1, 100);
  for (int64_t n : {0, 1, 99, 1000}) {
    EXPECT_EQ(schedule.LearningRate(n), kBase);
    EXPECT_EQ(schedule.WeightDecay(n), 0.1);
  }
}

// total 100 steps: by default warmup 10, decay 100, init 1e-4, max 1e-3, min 1e-5.
TEST(LrScheduleTest, FollowsTheFormulaOfEachStyle) {
  struct Case {
    const char* style;
    int64_t steps_taken;
    double lr;
  };
  const std::vector<Case> cases = {
      {"constant", 0, 1e-4},
      {"constant", 5, 5.5e-4},
      {"constant", 10, 1e-3},
      {"constant", 500, 1e-3},
      {"linear", 0, 1e-4},
      {"linear", 10, 1e-3},
      {"linear", 55, 1e-5 + 0.5 * 9.9e-4},
      {"linear", 100, 1e-5},
      {"linear", 101, 1e-5},
      {"cosine", 1, 1.9e-4},
      {"cosine", 11, 1e-5 + 0.5 * (1 + 0.99939082701909576) * 9.9e-4},  // cos(pi / 90)
      {"cosine", 55, 1e-5 + 0.5 * 9.9e-4},
      {"cosine", 100, 1e-5},
      {"inverse-square-root", 10, 1e-3},
      {"inverse-square-root", 40, 5e-4},
      {"inverse-square-root", 101, 1e-5},
  };
  for (const Case& c : cases) {
    const LrSchedule schedule(Spec(c.style), kBase, 0, 100);
    EXPECT_NEAR(schedule.LearningRate(c.steps_taken), c.lr, 1e-15) << c.style << c.steps_taken;
  }
}

TEST(LrScheduleTest, HoldsAndThenFallsUnderWsd) {
  struct Case {
    const char* style;
    double fall_at_half;
  };
  for (const Case& c : std::vector<Case>{{"linear", 0.5},
                                         {"cosine", 0.5},
                                         {"exponential", 2 * 0.70710678118654752 - 1},
                                         {"minus_sqrt", 1 - 0.70710678118654752}}) {
    LrSchedulerSpec spec = Spec("WSD");
    spec.wsd_decay_steps = 20;
    spec.lr_wsd_decay_style = c.style;
    const LrSchedule schedule(spec, kBase, 0, 100);
    EXPECT_NEAR(schedule.LearningRate(11), 1e-3, 1e-15) << c.style;
    EXPECT_NEAR(schedule.LearningRate(80), 1e-3, 1e-15) << c.style;
    EXPECT_NEAR(schedule.LearningRate(90), 1e-5 + c.fall_at_half * 9.9e-4, 1e-15) << c.style;
    EXPECT_NEAR(schedule.LearningRate(100), 1e-5, 1e-15) << c.style;
  }
}

TEST(LrScheduleTest, TakesWhatTheRecipeGivesOverTheDefaults) {
  LrSchedulerSpec spec = Spec("linear", 4);
  spec.lr_decay_steps = 14;
  spec.init_lr = 0;
  spec.max_lr = 2e-3;
  spec.min_lr = 1e-3;
  const LrSchedule schedule(spec, kBase, 0, 100);
  EXPECT_EQ(schedule.LearningRate(0), 0);
  EXPECT_NEAR(schedule.LearningRate(2), 1e-3, 1e-15);
  EXPECT_NEAR(schedule.LearningRate(4), 2e-3, 1e-15);
  EXPECT_NEAR(schedule.LearningRate(9), 1.5e-3, 1e-15);
  EXPECT_NEAR(schedule.LearningRate(50), 1e-3, 1e-15);
}

TEST(LrScheduleTest, HasNoWarmupInAShortRun) {
  const LrSchedule schedule(Spec("cosine"), kBase, 0, 9);
  EXPECT_NEAR(schedule.LearningRate(0), kBase, 1e-15);
}

TEST(LrScheduleTest, RaisesTheWeightDecay) {
  LrSchedulerSpec spec = Spec("constant");
  spec.start_wd = 0.1;
  spec.end_wd = 0.3;
  spec.wd_incr_style = "linear";
  const LrSchedule linear(spec, kBase, 0, 100);
  EXPECT_NEAR(linear.WeightDecay(0), 0.1, 1e-15);
  EXPECT_NEAR(linear.WeightDecay(25), 0.15, 1e-15);
  EXPECT_NEAR(linear.WeightDecay(100), 0.3, 1e-15);
  EXPECT_NEAR(linear.WeightDecay(200), 0.3, 1e-15);
  spec.wd_incr_style = "cosine";
  EXPECT_NEAR(LrSchedule(spec, kBase, 0, 100).WeightDecay(50), 0.2, 1e-15);
  EXPECT_EQ(LrSchedule(Spec("constant"), kBase, 0.1, 100).WeightDecay(7), 0.1);
}

TEST(LrScheduleTest, RefusesNumbersThatCannotBeMet) {
  using Change = std::function<void(LrSchedulerSpec&)>;
  const std::vector<std::pair<Change, const char*>> cases = {
      {[](auto& s) { s.min_lr = 1; }, "lr_scheduler.min_lr: 1 is above max_lr 0.001"},
      {[](auto& s) { s.init_lr = 1; }, "lr_scheduler.init_lr: 1 is above max_lr 0.001"},
      {[](auto& s) { s.lr_warmup_steps = 100; }, "lr_scheduler.lr_warmup_steps: 100; use 0 to"},
      {[](auto& s) { s.lr_decay_style = "WSD"; }, "lr_scheduler.wsd_decay_steps: missing"},
      {[](auto& s) { s.lr_decay_style = "step"; }, "unknown style 'step'; use constant, linear,"},
      {[](auto& s) { s.end_wd = 0.5; }, "lr_scheduler.wd_incr_style: constant, but start_wd is"},
      {[](auto& s) { s.wd_incr_style = "up"; }, "lr_scheduler.wd_incr_style: unknown style 'up'"},
  };
  for (const auto& [change, message] : cases) {
    LrSchedulerSpec spec = Spec("cosine");
    change(spec);
    try {
      LrSchedule(spec, kBase, 0, 100);
      ADD_FAILURE() << "not refused: " << message;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser);
      EXPECT_THAT(error.what(), testing::HasSubstr(message));
    }
  }
}

}  // namespace
}  // namespace am::engine

// Lives of a job as tables: what it does for how many seconds, and what each second counts as.
#include "controller/job/goodput.h"

#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace am::controller {
namespace {

using std::chrono::seconds;
using enum GoodputLedger::Doing;
using Doing = GoodputLedger::Doing;

struct Part {
  Doing doing;
  int seconds;
  enum { kNone, kSaved, kLost } then = kNone;  // at its end
};

struct Life {
  std::string name;
  std::vector<Part> parts;
  // queued, starting, productive, checkpoint, lost work, recovery
  std::vector<int> seconds;
};
void PrintTo(const Life& life, std::ostream* out) { *out << life.name; }

class GoodputTest : public testing::TestWithParam<Life> {};

TEST_P(GoodputTest, CountsEverySecondOnce) {
  TimePoint begin{std::chrono::hours(1)}, now = begin;
  GoodputLedger ledger;
  for (const Part& part : GetParam().parts) {
    ledger.Begin(part.doing, now);
    now += seconds(part.seconds);
    // As the store would: the same comes out whenever it is taken up again.
    ledger = GoodputLedger(ledger.state());
    if (part.then == Part::kSaved) ledger.Saved(now);
    if (part.then == Part::kLost) ledger.LoseWork(now);
  }
  Goodput total = ledger.At(now);
  const std::vector<int>& expected = GetParam().seconds;
  EXPECT_EQ(total.queued, seconds(expected[0]));
  EXPECT_EQ(total.starting, seconds(expected[1]));
  EXPECT_EQ(total.productive, seconds(expected[2]));
  EXPECT_EQ(total.checkpoint, seconds(expected[3]));
  EXPECT_EQ(total.lost_work, seconds(expected[4]));
  EXPECT_EQ(total.recovery, seconds(expected[5]));
  EXPECT_EQ(total.total(), now - begin);
}

INSTANTIATE_TEST_SUITE_P(
    Lives, GoodputTest,
    testing::Values(
        Life{"Undisturbed",
             {{kQueued, 5}, {kStarting, 3}, {kProductive, 100}},
             {5, 3, 100, 0, 0, 0}},
        Life{"LostFromTheBeginning",
             {{kQueued, 1},
              {kStarting, 2},
              {kProductive, 30, Part::kLost},
              {kRecovery, 4},
              {kProductive, 50}},
             {1, 2, 50, 0, 30, 4}},
        Life{"LostSinceTheCheckpoint",
             {{kProductive, 20, Part::kSaved},
              {kCheckpoint, 2},
              {kProductive, 7, Part::kLost},
              {kRecovery, 3},
              {kProductive, 10}},
             {0, 0, 30, 2, 7, 3}},
        Life{"LostOnlyOnce",
             {{kProductive, 10, Part::kLost}, {kRecovery, 1, Part::kLost}, {kProductive, 5}},
             {0, 0, 5, 0, 10, 1}},
        Life{"SavedWhileItGoesOn",
             {{kProductive, 10, Part::kSaved}, {kProductive, 4, Part::kLost}},
             {0, 0, 10, 0, 4, 0}},
        Life{"PreemptedAndGoesOn",
             {{kQueued, 1},
              {kStarting, 1},
              {kProductive, 10},
              {kCheckpoint, 2, Part::kSaved},
              {kQueued, 60, Part::kLost},
              {kRecovery, 1},
              {kProductive, 10}},
             {61, 1, 20, 2, 0, 1}}),
    [](const auto& life) { return life.param.name; });

TEST(GoodputLedger, CountsWhatIsUnderWay) {
  GoodputLedger ledger;
  TimePoint now{seconds(10)};
  ledger.Begin(kProductive, now);
  EXPECT_EQ(ledger.At(now + seconds(3)).productive, seconds(3));
  EXPECT_EQ(ledger.At(now + seconds(4)).productive, seconds(4));
}

TEST(GoodputLedger, BooksNothingWhenTheClockWasSetBack) {
  GoodputLedger ledger({.doing = kProductive, .since = TimePoint(seconds(100))});
  EXPECT_EQ(ledger.At(TimePoint(seconds(50))).total(), Duration::zero());
}

}  // namespace
}  // namespace am::controller

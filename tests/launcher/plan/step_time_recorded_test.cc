// The model against recorded runs; docs/predictor.md has the table. Shared data: absent, it skips.
#include <gtest/gtest.h>

#include "tests/launcher/plan/step_time_fit.h"

namespace am::plan {
namespace {

class RecordedRuns : public ::testing::Test {
 protected:
  void SetUp() override {
    recorded_ = ReadRecordedRows();
    rows_ = RowsToFit(recorded_);
    if (rows_.empty()) GTEST_SKIP() << "no recorded runs: AMCTL_TEST_DATA names their place";
  }

  RecordedRows recorded_;
  std::vector<const RecordedRow*> rows_;
};

TEST_F(RecordedRuns, AreMetWithinSixPercentInTheMedianAndFifteenAtWorst) {
  std::vector<double> errors;
  for (const RecordedRow* row : rows_) {
    errors.push_back(ErrorOf(*row, Calibration()));
    RecordProperty(std::to_string(row->number), std::to_string(errors.back()));
  }
  EXPECT_LE(MedianSize(errors), 0.06);
  EXPECT_LE(WorstSize(errors), 0.15);
}

TEST_F(RecordedRuns, AreMetWithinElevenPercentInTheMedianWhereTheyWereLeftOut) {
  std::vector<double> errors = LeaveOneOut(rows_);
  EXPECT_LE(MedianSize(errors), 0.11);
  EXPECT_LT(WorstSize(errors), WorstSize(ConstantShareErrors(rows_)));
}

TEST_F(RecordedRuns, AreWhatTheCalibrationWasFittedTo) {
  if (rows_.size() < 15) GTEST_SKIP() << "some recorded runs have no recipe or model";
  Calibration fitted = FitCalibration(rows_), standing;
  for (const CalibrationField& field : CalibrationFields()) {
    double ratio = fitted.*field.number / standing.*field.number;
    EXPECT_NEAR(ratio, 1, 0.1) << field.name << " fits as " << fitted.*field.number;
  }
}

}  // namespace
}  // namespace am::plan

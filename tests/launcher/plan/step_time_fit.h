// Fits a Calibration to recorded runs: Gauss-Newton on the logarithms of the eight numbers, each
// held to its expectation by its spread, so that few runs can be fitted without running wild.
#pragma once

#include <vector>

#include "launcher/plan/calibration.h"
#include "tests/launcher/plan/recorded_rows.h"

namespace am::plan {

// How far a step time is expected to lie from the model, as a share.
inline constexpr double kExpectedError = 0.06;

Calibration FitCalibration(const std::vector<const RecordedRow*>& rows);
// (predicted - recorded) / recorded.
double ErrorOf(const RecordedRow& row, const Calibration& calibration);
// By row: the error where the others alone were fitted.
std::vector<double> LeaveOneOut(const std::vector<const RecordedRow*>& rows);
// By row: the error of a constant share of the peak for each GPU, precision and dense or not, which
// is the median of all rows of the kind; of the others where it is left out (a row alone in its
// kind is then skipped).
std::vector<double> ConstantShareErrors(const std::vector<const RecordedRow*>& rows,
                                        bool leave_out = false);

double MedianSize(std::vector<double> errors);
double WorstSize(const std::vector<double>& errors);

}  // namespace am::plan

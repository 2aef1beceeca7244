// fit_step_time: refits the calibration to the recorded runs and prints it with the error of each.
//   fit_step_time            the table
//   fit_step_time --terms    with each row's terms, as shares of the step
//   fit_step_time --default  with the calibration as it stands
#include <cmath>
#include <cstdio>
#include <string_view>

#include "launcher/plan/step_time.h"
#include "tests/launcher/plan/step_time_fit.h"

namespace am::plan {
namespace {

void PrintTerms(const RecordedRow& row, const Calibration& calibration) {
  for (const Term& term : EstimateStepTime(row.workload, calibration).terms) {
    std::printf("    %-22s %9.3f s  %s\n", term.name.c_str(), term.value, term.formula.c_str());
  }
}

// How much of each step hangs on each number: per cent that the step changes by where the number
// changes by one per cent.
void PrintExercise(const std::vector<const RecordedRow*>& rows, const Calibration& calibration) {
  std::printf("\nper cent of the step that hangs on each number\nrow ");
  for (const CalibrationField& field : CalibrationFields()) std::printf(" %10.10s", field.name);
  for (const RecordedRow* row : rows) {
    std::printf("\n%2d  ", row->number);
    for (const CalibrationField& field : CalibrationFields()) {
      Calibration moved = calibration;
      moved.*field.number *= 1.01;
      double change = EstimateStepTime(row->workload, moved).seconds /
                          EstimateStepTime(row->workload, calibration).seconds -
                      1;
      std::printf(" %10.0f", 1e4 * std::abs(change));
    }
  }
  std::printf("\n");
}

int Main(bool terms, bool as_it_stands) {
  RecordedRows recorded = ReadRecordedRows();
  std::vector<const RecordedRow*> fitted = RowsToFit(recorded);
  for (const std::string& left : recorded.left_out) std::printf("left out: %s\n", left.c_str());
  if (fitted.empty()) return 1;
  Calibration calibration = as_it_stands ? Calibration() : FitCalibration(fitted);
  std::vector<double> without = LeaveOneOut(fitted);
  std::vector<double> constant = ConstantShareErrors(fitted);

  for (const CalibrationField& field : CalibrationFields()) {
    std::printf("%-24s %10.5g %-13s expected %.5g\n", field.name, calibration.*field.number,
                field.unit, field.expected);
  }
  std::printf("\nrow  %-32s %9s %9s %7s %8s %9s\n", "", "recorded", "model", "error", "left out",
              "constant");
  std::vector<double> errors;
  size_t index = 0;
  for (const RecordedRow& row : recorded.rows) {
    bool is_fitted = index < fitted.size() && fitted[index] == &row;
    double seconds = EstimateStepTime(row.workload, calibration).seconds;
    if (is_fitted) {
      errors.push_back(ErrorOf(row, calibration));
      std::printf("%2d   %-26s %-5s %9.3f %9.3f %+6.1f%% %+7.1f%% %+8.1f%%\n", row.number,
                  row.model.c_str(), row.gpu.c_str(), *row.seconds, seconds, 100 * errors.back(),
                  100 * without[index], 100 * constant[index]);
      ++index;
    } else if (seconds == 0) {
      std::printf("%2d   %-26s %-5s not told\n", row.number, row.model.c_str(), row.gpu.c_str());
    } else if (row.seconds) {
      std::printf("%2d   %-26s %-5s %9.3f %9.3f real data: %.1f times as long\n", row.number,
                  row.model.c_str(), row.gpu.c_str(), *row.seconds, seconds,
                  *row.seconds / seconds);
    } else {
      std::printf("%2d   %-26s %-5s %9s %9.3f\n", row.number, row.model.c_str(), row.gpu.c_str(),
                  "", seconds);
    }
    if (terms) PrintTerms(row, calibration);
  }
  auto summary = [](const char* what, const std::vector<double>& of) {
    std::printf("%-32s median %4.1f %%, worst %4.1f %%\n", what, 100 * MedianSize(of),
                100 * WorstSize(of));
  };
  std::printf("\n");
  summary("model", errors);
  summary("model, row left out", without);
  summary("constant share", constant);
  summary("constant share, row left out", ConstantShareErrors(fitted, true));
  PrintExercise(fitted, calibration);
  return 0;
}

}  // namespace
}  // namespace am::plan

int main(int argc, char** argv) {
  bool terms = false, as_it_stands = false;
  for (int i = 1; i < argc; ++i) {
    terms |= std::string_view(argv[i]) == "--terms";
    as_it_stands |= std::string_view(argv[i]) == "--default";
  }
  return am::plan::Main(terms, as_it_stands);
}

#include "tests/launcher/plan/step_time_fit.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "launcher/plan/step_time.h"

namespace am::plan {
namespace {

using Vector = std::vector<double>;

Calibration At(const Vector& x) {
  Calibration calibration;
  std::span<const CalibrationField> fields = CalibrationFields();
  for (size_t i = 0; i < fields.size(); ++i) {
    calibration.*fields[i].number = fields[i].expected * std::exp(fields[i].spread * x[i]);
  }
  return calibration;
}

Vector Residuals(const std::vector<const RecordedRow*>& rows, const Vector& x) {
  Calibration calibration = At(x);
  Vector residuals = x;
  for (const RecordedRow* row : rows) {
    double seconds = EstimateStepTime(row->workload, calibration).seconds;
    residuals.push_back(std::log(seconds / *row->seconds) / kExpectedError);
  }
  return residuals;
}

// Symmetric, positive definite.
Vector Solve(std::vector<Vector> a, Vector b) {
  size_t n = b.size();
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = i + 1; j < n; ++j) {
      double factor = a[j][i] / a[i][i];
      for (size_t k = i; k < n; ++k) a[j][k] -= factor * a[i][k];
      b[j] -= factor * b[i];
    }
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t k = i + 1; k < n; ++k) b[i] -= a[i][k] * b[k];
    b[i] /= a[i][i];
  }
  return b;
}

}  // namespace

Calibration FitCalibration(const std::vector<const RecordedRow*>& rows) {
  constexpr double kStep = 1e-3;
  size_t n = CalibrationFields().size();
  Vector x(n, 0);
  for (int round = 0; round < 15; ++round) {
    Vector here = Residuals(rows, x);
    std::vector<Vector> slopes;
    for (size_t i = 0; i < n; ++i) {
      Vector moved = x;
      moved[i] += kStep;
      Vector there = Residuals(rows, moved);
      for (size_t r = 0; r < there.size(); ++r) there[r] = (there[r] - here[r]) / kStep;
      slopes.push_back(std::move(there));
    }
    std::vector<Vector> normal(n, Vector(n, 0));
    Vector down(n, 0);
    for (size_t i = 0; i < n; ++i) {
      for (size_t r = 0; r < here.size(); ++r) {
        down[i] -= slopes[i][r] * here[r];
        for (size_t j = 0; j < n; ++j) normal[i][j] += slopes[i][r] * slopes[j][r];
      }
    }
    Vector step = Solve(std::move(normal), std::move(down));
    double longest = 0;
    for (size_t i = 0; i < n; ++i) {
      x[i] += std::clamp(step[i], -1.5, 1.5);
      longest = std::max(longest, std::abs(step[i]));
    }
    if (longest < 1e-3) break;
  }
  return At(x);
}

double ErrorOf(const RecordedRow& row, const Calibration& calibration) {
  return EstimateStepTime(row.workload, calibration).seconds / *row.seconds - 1;
}

std::vector<double> LeaveOneOut(const std::vector<const RecordedRow*>& rows) {
  std::vector<double> errors;
  for (const RecordedRow* left : rows) {
    std::vector<const RecordedRow*> others;
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(others),
                 [&](const RecordedRow* row) { return row != left; });
    errors.push_back(ErrorOf(*left, FitCalibration(others)));
  }
  return errors;
}

std::vector<double> ConstantShareErrors(const std::vector<const RecordedRow*>& rows,
                                        bool leave_out) {
  auto kind = [](const RecordedRow& row) {
    return std::tuple(row.gpu, row.precision, row.workload.shape->num_experts > 0);
  };
  std::vector<double> errors;
  for (const RecordedRow* row : rows) {
    Vector of_kind;
    for (const RecordedRow* other : rows) {
      if (kind(*other) != kind(*row) || (leave_out && other == row)) continue;
      of_kind.push_back(*other->tflops_per_gpu);
    }
    if (of_kind.empty()) continue;
    std::sort(of_kind.begin(), of_kind.end());
    size_t n = of_kind.size();
    errors.push_back(*row->tflops_per_gpu * 2 / (of_kind[(n - 1) / 2] + of_kind[n / 2]) - 1);
  }
  return errors;
}

double MedianSize(std::vector<double> errors) {
  for (double& error : errors) error = std::abs(error);
  std::sort(errors.begin(), errors.end());
  size_t n = errors.size();
  return n == 0 ? 0 : (errors[(n - 1) / 2] + errors[n / 2]) / 2;
}

double WorstSize(const std::vector<double>& errors) {
  double worst = 0;
  for (double error : errors) worst = std::max(worst, std::abs(error));
  return worst;
}

}  // namespace am::plan

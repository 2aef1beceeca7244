// The recorded runs: recipes of configs/recorded, each with its row of the shared table, as
// workloads.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/workload.h"

namespace am::plan {

struct RecordedRow {
  int number = 0;  // of configs/recorded/NN-*.yaml, and of the table
  std::string model;
  std::string gpu;
  std::string precision;
  bool full_length = false;              // made-up samples of full length that record FLOP/s
  std::optional<double> seconds;         // of a step
  std::optional<double> tflops_per_gpu;  // as recorded
  Workload workload;
};

struct RecordedRows {
  std::vector<RecordedRow> rows;
  std::vector<std::string> left_out;  // with why: no shape for the model, no recipe
};

// Empty where the shared data is absent.
RecordedRows ReadRecordedRows();

// Of those, the rows that calibration is fitted to.
std::vector<const RecordedRow*> RowsToFit(const RecordedRows& rows);

}  // namespace am::plan

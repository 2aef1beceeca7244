#include "tests/launcher/plan/recorded_rows.h"

#include <utility>

#include "tests/launcher/plan/recorded_runs.h"

namespace am::plan {

RecordedRows ReadRecordedRows() {
  RecordedRows out;
  for (const RecordedRun& run : Runs()) {
    if (!run.plan || !run.plan->estimates.workload) {
      out.left_out.push_back(run.name() + ": " + recipe::RenderText(run.diagnostics));
      continue;
    }
    std::string task = run.Cell("task");
    out.rows.push_back({.number = std::stoi(run.number),
                        .model = run.Cell("model"),
                        .gpu = run.Cell("gpu"),
                        .precision = run.Cell("precision"),
                        .full_length = (task == "lora" || task == "pretrain") && run.mock(),
                        .seconds = run.Figure("step_time_s"),
                        .tflops_per_gpu = run.Figure("model_tflops_per_gpu"),
                        .workload = *run.plan->estimates.workload});
  }
  return out;
}

std::vector<const RecordedRow*> RowsToFit(const RecordedRows& rows) {
  std::vector<const RecordedRow*> fit;
  for (const RecordedRow& row : rows.rows) {
    if (row.full_length && row.seconds && row.tflops_per_gpu) fit.push_back(&row);
  }
  return fit;
}

}  // namespace am::plan

// Calibration: the eight numbers of the step-time model that were fitted to recorded runs. All else
// in it is a datasheet figure, a count of bytes or operations, or a constant of step_time_rates.h.
//
// Each is physical and can be measured on its own, so a user can put in what their machines reach:
//   Calibration mine;
//   mine.links = 0.7;                     // nccl-tests reach 70 % of the link
//   EstimateStepTime(workload, mine);
// docs/predictor.md says from which runs each default comes; fit_step_time refits them.
#pragma once

#include <span>

namespace am::plan {

struct Calibration {
  // Large dense matrix products in 16 bits, as a share of the peak. Sustained clocks under the
  // power limit, tile and wave quantisation.
  double products = 0.69;
  // The same for the grouped products of routed experts.
  double expert_products = 0.51;
  // Products in 8 bits (FP8, MXFP8), as a share of that peak; experts scaled as in 16 bits.
  double low_precision_products = 0.48;
  // Causal attention, heads 128 wide, forward and backward together, by the best kernel there is
  // for the machine, as a share of the 16-bit peak.
  double attention = 0.46;
  // HBM bandwidth that kernels without arithmetic reach: norms, activations, permutations, casts.
  double memory = 0.77;
  // Links: NVLink and network, per direction.
  double links = 0.56;
  // Seconds the GPU waits in each pass through a layer of experts: the host learns how many tokens
  // came before it can launch on.
  double expert_gap_s = 0.75e-3;
  // Seconds of host work a step for each tensor that is trained and sharded: gradient norm,
  // optimizer, and the sharded tensor's dispatch of each of their operations.
  double tensor_s = 0.74e-3;
};

// For fitting and for printing: where each number is, what is expected before any run is seen, and
// how far (as a share of it) it may lie from that.
struct CalibrationField {
  const char* name;
  double Calibration::*number;
  double expected;
  double spread;
  const char* unit;
};
std::span<const CalibrationField> CalibrationFields();

}  // namespace am::plan

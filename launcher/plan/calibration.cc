#include "launcher/plan/calibration.h"

namespace am::plan {
namespace {

// Expectations: large products on H100 sustain 650-720 of 989 TFLOP/s, grouped ones somewhat less,
// FlashAttention-3 (arXiv 2407.08608) and cuDNN 450-550 forward and backward together at 4k tokens;
// copies reach about 80 % of HBM bandwidth, collectives of NCCL 70-80 % of a link.
constexpr CalibrationField kFields[] = {
    {"products", &Calibration::products, 0.72, 0.08, "of peak"},
    {"expert_products", &Calibration::expert_products, 0.60, 0.12, "of peak"},
    {"low_precision_products", &Calibration::low_precision_products, 0.52, 0.15, "of peak"},
    {"attention", &Calibration::attention, 0.48, 0.12, "of peak"},
    {"memory", &Calibration::memory, 0.80, 0.10, "of bandwidth"},
    {"links", &Calibration::links, 0.75, 0.20, "of bandwidth"},
    {"expert_gap_s", &Calibration::expert_gap_s, 0.6e-3, 0.60, "s"},
    {"tensor_s", &Calibration::tensor_s, 0.4e-3, 0.50, "s"},
};

}  // namespace

std::span<const CalibrationField> CalibrationFields() { return kFields; }

}  // namespace am::plan

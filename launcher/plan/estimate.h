// Estimates: what a laid-out recipe takes in memory, time and money, and what of it could not be
// known. Counted from the model's shape where config.json is at hand; without one the plan still
// has its layout and batches, and `unknown` says what would tell the rest.
//   Estimates estimates = EstimatePlan(recipe, plan, shape, cluster.node, {});
//   *estimates.step_time->seconds;
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/model/shape.h"
#include "launcher/plan/cost.h"
#include "launcher/plan/make_workload.h"
#include "launcher/plan/memory.h"
#include "launcher/plan/step_time.h"
#include "launcher/plan/workload.h"

namespace am::plan {

struct Plan;

struct Estimates {
  std::shared_ptr<const model::ModelShape> shape;  // null: not known
  std::optional<Workload> workload;                // where the shape is known

  std::optional<int64_t> parameters;
  std::optional<int64_t> active_parameters;
  std::vector<double> parameters_of_stage;  // by pipeline rank, whole
  std::vector<double> parameters_of_rank;   // by pipeline rank, what one of its ranks keeps

  std::string flops_convention;                // how model_flops_per_step is counted
  std::optional<double> model_flops_per_step;  // forward and backward, nothing twice

  // Where the sequence length is not known (workload->seq_length is 0), without activations.
  std::optional<MemoryEstimate> memory;
  std::optional<StepTimeEstimate> step_time;
  std::optional<double> tflops_per_gpu;  // model FLOPs
  std::optional<double> peak_tflops;     // of the precision, dense
  std::optional<double> mfu;             // their quotient

  RunLength length;
  RunCost cost;

  std::vector<std::string> reasons;
  std::vector<std::string> unknown;  // what could not be known, and what would tell
};

// `convention`: of FLOPs (flops.h); nothing: the recipe's x-flops-convention, else today's.
Estimates EstimatePlan(const recipe::Recipe& recipe, const Plan& plan,
                       std::shared_ptr<const model::ModelShape> shape, const NodeShape& node,
                       const std::optional<std::string>& convention);

// Where the recipe is silent: no recomputation if that fits, else full.
void DecideRecompute(Workload& workload);

std::string_view Name(Recompute recompute);  // as distributed.activation_checkpointing has it
std::string_view Name(Precision precision);  // "bfloat16", "fp8", …

}  // namespace am::plan

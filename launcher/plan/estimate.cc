#include "launcher/plan/estimate.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <utility>

#include "launcher/plan/flops.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/sharding.h"
#include "launcher/plan/text_table.h"

namespace am::plan {
namespace {

double PeakTflops(const Workload& workload) {
  const NodeShape& node = workload.node;
  switch (workload.precision) {
    case Precision::kFloat32:
      return node.peak_tflops_tf32 > 0 ? node.peak_tflops_tf32 : node.peak_tflops_fp32;
    case Precision::kBfloat16:
      return node.peak_tflops_bf16;
    case Precision::kFloat16:
      return node.peak_tflops_fp16 > 0 ? node.peak_tflops_fp16 : node.peak_tflops_bf16;
    case Precision::kFp8:
    case Precision::kMxfp8:
      return node.peak_tflops_fp8 > 0 ? node.peak_tflops_fp8 : node.peak_tflops_bf16;
  }
  return 0;
}

void CountModel(Estimates& out) {
  const model::ModelShape& shape = *out.shape;
  const Workload& workload = *out.workload;
  out.parameters = model::Parameters(shape);
  out.active_parameters = model::ActiveParameters(shape);
  for (int stage = 0; stage < workload.dims.pp; ++stage) {
    out.parameters_of_stage.push_back(ParametersOfStage(workload, stage));
    out.parameters_of_rank.push_back(ParametersOfRank(workload, stage));
  }
  out.reasons.push_back(absl::StrCat(
      "parameters ", Grouped(*out.parameters), " counted from config.json, family ", shape.family,
      *out.active_parameters == *out.parameters
          ? ""
          : absl::StrCat("; a token meets ", Grouped(*out.active_parameters), " of them, ",
                         shape.experts_per_token, " of ", shape.num_experts, " experts a layer")));
}

void CountFlops(Estimates& out, const recipe::Recipe& recipe,
                const std::optional<std::string>& asked) {
  std::string word = asked.value_or(GivenText(recipe, "x-flops-convention").value_or("current"));
  FlopsConvention convention = ParseFlopsConvention(word).value_or(FlopsConvention::kCurrent);
  const Workload& workload = *out.workload;
  if (workload.seq_length <= 0 || workload.global_batch_size <= 0) return;
  FlopsEstimate flops = ModelFlops(workload, convention);
  out.flops_convention = flops.convention;
  double tokens = static_cast<double>(workload.seq_length * workload.global_batch_size);
  out.model_flops_per_step = flops.per_token * tokens;
  out.reasons.push_back(absl::StrFormat(
      "model FLOPs a step %.4g = %s a token · %s tokens, convention %s", *out.model_flops_per_step,
      Scaled(flops.per_token), Grouped(static_cast<int64_t>(tokens)), flops.convention));
}

void CountTime(Estimates& out, const Plan& plan) {
  const Workload& workload = *out.workload;
  if (workload.seq_length <= 0) {
    out.unknown.push_back(
        "step time, activations and tokens a step: samples have lengths of their own and the "
        "recipe fixes none; set packed_sequence.packed_sequence_size, or ask with --what-if "
        "seq=N");
    return;
  }
  StepTimeEstimate time = EstimateStepTime(workload);
  if (time.seconds <= 0) {
    for (std::string& note : time.notes) out.unknown.push_back(std::move(note));
    return;
  }
  out.step_time = std::move(time);
  if (double peak = PeakTflops(workload); peak > 0) out.peak_tflops = peak;
  if (out.model_flops_per_step) {
    out.tflops_per_gpu =
        *out.model_flops_per_step / out.step_time->seconds / plan.dims.world() / 1e12;
    if (out.peak_tflops) out.mfu = *out.tflops_per_gpu / *out.peak_tflops;
  }
}

}  // namespace

std::string_view Name(Recompute recompute) {
  switch (recompute) {
    case Recompute::kNone:
      return "off";
    case Recompute::kSelective:
      return "selective";
    case Recompute::kFull:
      return "full";
  }
  return "";
}

std::string_view Name(Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      return "float32";
    case Precision::kBfloat16:
      return "bfloat16";
    case Precision::kFloat16:
      return "float16";
    case Precision::kFp8:
      return "fp8";
    case Precision::kMxfp8:
      return "mxfp8";
  }
  return "";
}

void DecideRecompute(Workload& workload) {
  if (!workload.recompute_assumed) return;
  workload.recompute = Recompute::kNone;
  if (!EstimateMemory(workload).fits()) workload.recompute = Recompute::kFull;
}

Estimates EstimatePlan(const recipe::Recipe& recipe, const Plan& plan,
                       std::shared_ptr<const model::ModelShape> shape, const NodeShape& node,
                       const std::optional<std::string>& convention) {
  Estimates out;
  out.length = LengthOfRun(recipe, plan.batch);
  if (!shape) return out;
  out.shape = shape;
  out.workload = MakeWorkload(recipe, plan, std::move(shape), node);
  Workload& workload = *out.workload;
  bool decided = workload.recompute_assumed;
  if (workload.seq_length > 0) DecideRecompute(workload);
  CountModel(out);
  out.memory = EstimateMemory(workload);
  if (workload.seq_length > 0) {
    if (decided) {
      out.reasons.push_back(absl::StrCat(
          "recomputation of activations assumed ", std::string(Name(workload.recompute)),
          ", since the recipe does not say: ",
          workload.recompute == Recompute::kNone ? "it fits without" : "it does not fit without",
          "; distributed.activation_checkpointing sets it"));
    }
  }
  CountFlops(out, recipe, convention);
  CountTime(out, plan);
  if (out.step_time) {
    out.cost = CostOfRun(out.length, out.step_time->seconds, plan.dims.world(), node);
  }
  return out;
}

}  // namespace am::plan

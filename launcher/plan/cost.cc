#include "launcher/plan/cost.h"

#include <absl/strings/ascii.h>
#include <absl/strings/match.h>
#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <string_view>

#include "launcher/plan/make_workload.h"
#include "launcher/plan/text_table.h"

namespace am::plan {
namespace {

// Rows of the split `train`, as the data sets' pages say.
struct KnownSet {
  std::string_view name;
  int64_t samples;
};
constexpr KnownSet kKnownSets[] = {
    {"rajpurkar/squad", 87'599},
    {"squad", 87'599},
    {"rowan/hellaswag", 39'905},
    {"hellaswag", 39'905},
    {"allenai/tulu-3-sft-mixture", 939'343},
    {"salesforce/xlam-function-calling-60k", 60'000},
    {"naver-clova-ix/cord-v2", 800},
};

std::optional<int64_t> GivenCount(const recipe::Recipe& recipe, std::string_view key) {
  const recipe::Value* value = recipe.Find(key);
  const auto* count = value ? std::get_if<int64_t>(&value->data) : nullptr;
  return count && *count > 0 ? std::optional<int64_t>(*count) : std::nullopt;
}

// "train" is all of them, "train[:1000]" at most a thousand, "train[:2%]" a fiftieth; nothing for
// other splits.
std::optional<int64_t> Slice(std::string_view split, int64_t samples) {
  if (split == "train") return samples;
  constexpr std::string_view kHead = "train[:";
  if (!split.starts_with(kHead) || !split.ends_with("]")) return std::nullopt;
  std::string_view count = split.substr(kHead.size(), split.size() - kHead.size() - 1);
  bool percent = count.ends_with("%");
  if (percent) count.remove_suffix(1);
  int64_t number = 0;
  if (!absl::SimpleAtoi(absl::string_view(count.data(), count.size()), &number) || number < 0) {
    return std::nullopt;
  }
  return percent ? samples * std::min<int64_t>(number, 100) / 100 : std::min(samples, number);
}

}  // namespace

std::optional<int64_t> SamplesOf(const recipe::Recipe& recipe) {
  std::optional<int64_t> samples;
  if (!ReadsRealData(recipe)) {
    samples = GivenCount(recipe, "dataset.num_samples");
  } else {
    std::string name;
    for (const char* key : {"dataset.dataset_name", "dataset.path_or_dataset",
                            "dataset.path_or_dataset_id", "dataset.path"}) {
      if (auto given = GivenText(recipe, key)) name = absl::AsciiStrToLower(*given);
    }
    for (const KnownSet& known : kKnownSets) {
      if (name == known.name) samples = known.samples;
    }
    std::string split = GivenText(recipe, "dataset.split").value_or("train");
    if (samples) samples = Slice(split, *samples);
    // A slice says how many there are at most, whatever the data set.
    if (!samples && split != "train") samples = Slice(split, int64_t{1} << 40);
    if (samples && *samples >= int64_t{1} << 33) samples.reset();
  }
  for (const char* key : {"dataset.limit_dataset_samples", "dataset.num_samples_limit"}) {
    if (auto limit = GivenCount(recipe, key)) samples = std::min(samples.value_or(*limit), *limit);
  }
  return samples;
}

RunLength LengthOfRun(const recipe::Recipe& recipe, const Batch& batch) {
  RunLength length;
  std::optional<int64_t> most = GivenCount(recipe, "step_scheduler.max_steps");
  std::optional<int64_t> samples = SamplesOf(recipe);
  bool packed = GivenCount(recipe, "packed_sequence.packed_sequence_size").has_value() ||
                GivenCount(recipe, "packed_sequence.pack_size").has_value();
  if (packed) samples = GivenCount(recipe, "packed_sequence.max_packs");
  const recipe::Value* given = recipe.Find("step_scheduler.num_epochs");
  std::optional<int64_t> epochs = GivenCount(recipe, "step_scheduler.num_epochs");
  if (!given) epochs = 10;

  if (samples && epochs && batch.global_batch_size > 0) {
    bool drop = recipe.Has("dataloader.drop_last") && recipe.Bool("dataloader.drop_last");
    int64_t global = batch.global_batch_size;
    int64_t an_epoch = drop ? *samples / global : (*samples + global - 1) / global;
    length.steps = an_epoch * *epochs;
    length.reason = absl::StrCat(*epochs, *epochs == 1 ? " epoch" : " epochs", " of ",
                                 Grouped(*samples), packed ? " packs" : " samples",
                                 " / global batch ", global, " = ", *length.steps, " steps");
    if (most && *most < *length.steps) {
      length.reason = absl::StrCat("max_steps ", *most, ", before ", length.reason);
      length.steps = most;
    }
    return length;
  }
  if (int64_t steps = most.value_or(0); steps > 0) {
    length.steps = steps;
    bool certain = (given && !epochs) || !ReadsRealData(recipe);
    length.reason = absl::StrCat("max_steps ", steps, certain ? "" : " at most");
    return length;
  }
  length.reason = packed ? "how many packs the data set fills is known only once it is packed; set "
                           "step_scheduler.max_steps"
                         : "the size of the data set is not known without reading it; set "
                           "step_scheduler.max_steps";
  return length;
}

RunCost CostOfRun(const RunLength& length, std::optional<double> step_time_s, int gpus,
                  const NodeShape& node) {
  RunCost cost;
  if (!length.steps || !step_time_s) return cost;
  double seconds = static_cast<double>(*length.steps) * *step_time_s;
  cost.days = seconds / 86'400;
  if (node.gpus == 0) return cost;
  cost.gpu_hours = seconds / 3'600 * gpus;
  if (node.price_per_gpu_hour) {
    cost.price = *cost.gpu_hours * *node.price_per_gpu_hour;
    cost.reason =
        absl::StrFormat("%.1f GPU-hours · %.2f", *cost.gpu_hours, *node.price_per_gpu_hour);
  } else {
    cost.reason = "no price is known; set node.price_per_gpu_hour in the cluster's file";
  }
  return cost;
}

}  // namespace am::plan

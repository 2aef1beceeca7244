#include "launcher/plan/step_time.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "launcher/plan/sharding.h"
#include "launcher/plan/step_time_layer.h"
#include "launcher/plan/step_time_rates.h"

namespace am::plan {
namespace {

using model::Layer;
using model::Weight;

// Shares of the traffic of sharded weights and gradients that no computation hides.
constexpr double kExposedWithPrefetch = 0.15;
constexpr double kExposed = 0.5;
// Adam in PyTorch, one operation after another on 16-bit states: about 22 passes of 2 bytes.
constexpr double kOptimizerBytes = 44;
// Logits: written, read for the maximum and the sum, read and written backward, read twice by the
// products. Fused losses keep them on the chip but for the products.
constexpr double kLossPasses = 6;
constexpr double kFusedLossPasses = 3;
// Recorded runs on real data against the model, docs/predictor.md: packed text on one hand; images,
// or packed samples cut over context-parallel ranks, on the other.
constexpr double kRealDataLow = 1.0;
constexpr double kRealDataHigh = 2.5;
constexpr double kUnevenDataHigh = 5;

bool Trains(const Workload& workload) { return !workload.adapter; }

// What one rank of one pipeline place holds and does.
struct Place {
  LayerTime time;      // of a micro-batch
  HeldNumbers held;    // before FSDP cuts them
  double tables = 0;   // of those, rows that are looked up where they lie, not gathered
  double tensors = 0;  // trained
};

bool IsAdapted(const Workload& workload, const Weight& weight) {
  const std::vector<std::string>& modules = workload.adapter->modules;
  return std::find(modules.begin(), modules.end(), weight.name) != modules.end();
}

void Hold(Place& place, const std::vector<Weight>& weights, const Workload& workload, double times,
          bool in_layer) {
  place.held += times * HeldOf(workload, weights, in_layer);
  for (const Weight& weight : weights) {
    if (weight.Numbers() == 0) continue;  // another weight's
    if (in_layer && weight.in > 0 && weight.uses == 0) {
      place.tables += times * static_cast<double>(weight.Numbers());
    }
    if (Trains(workload)) {
      place.tensors += times;
    } else if (IsAdapted(workload, weight)) {
      place.tensors += 2 * times;
    }
  }
}

class StepTimer {
 public:
  StepTimer(const Workload& workload, const Calibration& calibration)
      : workload_(workload), calibration_(calibration), rates_(RatesOf(workload, calibration)) {}

  StepTimeEstimate Estimate() {
    if (const char* why = WhyNot()) {
      estimate_.notes.emplace_back(why);
      return std::move(estimate_);
    }
    tokens_ =
        static_cast<double>(workload_.micro_batch_size * workload_.seq_length) / workload_.dims.cp;
    double pp = workload_.dims.pp;
    double per_pass = std::max(1.0, static_cast<double>(workload_.local_batch_size) /
                                        static_cast<double>(workload_.micro_batch_size));
    micro_batches_ = per_pass * static_cast<double>(workload_.grad_acc_steps);

    FillPlaces();
    double head = HeadSeconds();
    // The pipeline goes at the pace of its slowest rank; the last one has the head, too.
    size_t slowest = 0;
    auto seconds_of = [&](size_t place) {
      return places_[place].time.seconds() + (place + 1 == places_.size() ? head : 0);
    };
    for (size_t place = 1; place < places_.size(); ++place) {
      if (seconds_of(place) > seconds_of(slowest)) slowest = place;
    }
    const Place& place = places_[slowest];
    LayerTerms(place);
    if (slowest + 1 == places_.size()) HeadTerm(head);
    double accumulate = Accumulate(place);
    double transfers = StageTransfers();
    if (pp > 1) {
      double busy = micro_batches_ * (seconds_of(slowest) + accumulate + transfers);
      double share = (pp - 1) / (workload_.virtual_stages * per_pass);
      Add("pipeline bubble", busy * share,
          absl::StrFormat("%.3g s · (%g - 1) / (%d virtual · %g micro-batches)", busy, pp,
                          workload_.virtual_stages, per_pass));
    }
    ShardingTraffic(place);
    Optimizer(place);
    Host(place);
    Finish();
    return std::move(estimate_);
  }

 private:
  const char* WhyNot() const {
    if (!workload_.shape) return "step time: the model's shape is not known";
    if (rates_.peak <= 0 || rates_.memory <= 0) {
      return "step time: told for GPUs whose peak and memory bandwidth the cluster gives";
    }
    if (workload_.seq_length <= 0 || workload_.micro_batch_size <= 0) {
      return "step time: the sequence length is not known";
    }
    return nullptr;
  }

  void Add(std::string name, double seconds, std::string formula) {
    if (seconds <= 0) return;
    estimate_.seconds += seconds;
    estimate_.terms.push_back(
        {.name = std::move(name), .value = seconds, .formula = std::move(formula)});
  }

  void FillPlaces() {
    const model::ModelShape& shape = *workload_.shape;
    for (const StageContent& content : ContentOfStages(workload_)) {
      Place& place = places_.emplace_back();
      for (size_t kind = 0; kind < shape.kinds.size(); ++kind) {
        if (int layers = content.layers_of_kind[kind]; layers > 0) {
          AddLayers(place, shape.kinds[kind], layers, layers);
        }
      }
      if (content.first) Hold(place, shape.embedding, workload_, 1, false);
      if (!content.last) continue;
      Hold(place, shape.head, workload_, 1, false);
      // One block, run once a depth.
      if (workload_.mtp_depths > 0 && shape.mtp) {
        AddLayers(place, *shape.mtp, 1, static_cast<double>(workload_.mtp_depths));
      }
    }
  }

  void AddLayers(Place& place, const Layer& layer, double held, double runs) {
    place.time.Add(TimeOfLayer(layer, workload_, tokens_, rates_, calibration_), runs);
    Hold(place, layer.weights, workload_, held, true);
  }

  void LayerTerms(const Place& place) {
    for (size_t i = 0; i < place.time.costs.size(); ++i) {
      Cost cost = static_cast<Cost>(i);
      Spent spent = place.time[cost];
      Add(std::string(NameOf(cost)), spent.seconds * micro_batches_, Formula(cost, spent));
    }
  }

  // Work of a micro-batch at the rate that the term goes at.
  std::string Formula(Cost cost, const Spent& spent) const {
    std::string times = absl::StrFormat("%g micro-batches · ", micro_batches_);
    auto flops = [&](double share, double peak) {
      return absl::StrFormat("%s%.3g FLOP / (%.2f · %.0f TFLOP/s)", times, spent.work, share,
                             peak / 1e12);
    };
    switch (cost) {
      case Cost::kProducts:
        return Products(times, spent, rates_.quantizes_dense ? rates_.quantized : rates_.products);
      case Cost::kExpertProducts:
        return Products(
            times, spent,
            rates_.quantizes_experts ? rates_.expert_quantized : rates_.expert_products);
      case Cost::kAttention:
        return flops(spent.work / spent.seconds / rates_.peak, rates_.peak);
      case Cost::kScan:
        return flops(spent.work / spent.seconds / rates_.peak, rates_.peak);
      case Cost::kExpertGaps:
        return absl::StrFormat("%s%g passes · %.2f ms", times, spent.work,
                               calibration_.expert_gap_s * 1e3);
      case Cost::kAllToAll:
      case Cost::kTensorParallel:
      case Cost::kContextParallel: {
        double gbps = cost == Cost::kAllToAll         ? workload_.bandwidth.ep
                      : cost == Cost::kTensorParallel ? workload_.bandwidth.tp
                                                      : workload_.bandwidth.cp;
        return absl::StrFormat("%s%.3g B / (%.2f · %.0f GB/s)", times, spent.work,
                               calibration_.links, gbps);
      }
      default:
        return absl::StrFormat("%s%.3g B / (%.2f · %.0f GB/s)", times, spent.work,
                               calibration_.memory, workload_.node.gpu_memory_gb_per_s);
    }
  }

  static std::string Products(const std::string& times, const Spent& spent, double rate) {
    double reached = spent.work / spent.seconds;
    std::string text =
        absl::StrFormat("%s%.3g FLOP / %.0f TFLOP/s", times, spent.work, rate / 1e12);
    if (reached < 0.98 * rate) {
      absl::StrAppendFormat(&text, ", %.0f reached: some wait for memory", reached / 1e12);
    }
    return text;
  }

  double HeadSeconds() {
    const model::ModelShape& shape = *workload_.shape;
    double vocab = static_cast<double>(shape.vocab_size) / workload_.dims.tp;
    double heads = 1 + static_cast<double>(shape.mtp ? workload_.mtp_depths : 0);
    double passes = 2 + (Trains(workload_) ? 1 : 0);
    head_flops_ = heads * passes * 2 * tokens_ * static_cast<double>(shape.hidden_size) * vocab;
    head_bytes_ = heads * rates_.element * tokens_ * vocab *
                  (workload_.kernels.fused_loss ? kFusedLossPasses : kLossPasses);
    return head_flops_ / rates_.products + head_bytes_ / rates_.memory;
  }
  void HeadTerm(double seconds) {
    Add("logits and loss", seconds * micro_batches_,
        absl::StrFormat("%g micro-batches · (%.3g FLOP / %.0f TFLOP/s + %.3g B / %.0f GB/s)",
                        micro_batches_, head_flops_, rates_.products / 1e12, head_bytes_,
                        rates_.memory / 1e9));
  }

  // Gradients of experts are read, added to and written in each micro-batch but the first.
  double Accumulate(const Place& place) {
    if (micro_batches_ <= 1) return 0;
    double bytes = 3 * rates_.element * place.held.experts.trained;
    double seconds = bytes / rates_.memory;
    Add("gradient accumulation", seconds * micro_batches_,
        absl::StrFormat("%g micro-batches · %.3g B / %.0f GB/s", micro_batches_, bytes,
                        rates_.memory / 1e9));
    return seconds;
  }

  double StageTransfers() {
    if (workload_.dims.pp <= 1 || workload_.bandwidth.pp <= 0) return 0;
    // Forward and back once a virtual stage; half of it behind computation.
    double bytes =
        workload_.virtual_stages * rates_.element * tokens_ *
        static_cast<double>(workload_.shape->hidden_size * workload_.shape->residual_streams);
    double seconds = bytes / (workload_.bandwidth.pp * 1e9 * calibration_.links);
    Add("stage transfers", seconds * micro_batches_,
        absl::StrFormat("%g micro-batches · %.3g B exposed / (%.2f · %.0f GB/s)", micro_batches_,
                        bytes, calibration_.links, workload_.bandwidth.pp));
    return seconds;
  }

  // The shards lie over cp, too: its ranks add their network ports, up to what NVLink brings.
  double ShardLink() const {
    const AxisBandwidth& links = workload_.bandwidth;
    if (links.dp_shard <= 0) return links.cp;
    double inside = std::max(links.dp_shard, workload_.node.nvlink_gb_per_s);
    return std::min(links.dp_shard * workload_.dims.cp, inside);
  }

  void ShardingTraffic(const Place& place) {
    const ParallelDims& dims = workload_.dims;
    const AxisBandwidth& links = workload_.bandwidth;
    double shards = DenseShards(workload_);
    double replicas = workload_.strategy == "ddp" ? dims.dp() : dims.dp_replicate;
    double gathers = dims.pp > 1 ? 1 : micro_batches_ * (workload_.keeps_gathered ? 1 : 2);
    double seconds = 0;
    auto over = [&](double bytes, double gb_per_s) {
      if (gb_per_s > 0) seconds += bytes / (gb_per_s * 1e9 * calibration_.links);
    };
    auto gathered_and_reduced = [&](const Pool& pool, double tables) {
      double tensors = pool.trained + pool.frozen - tables;
      return gathers *
                 (workload_.bytes.parameter * tensors + workload_.bytes.frozen * pool.packed) +
             workload_.bytes.gradient * (pool.trained - (Trains(workload_) ? tables : 0));
    };
    if (shards > 1) {
      over((shards - 1) / shards * gathered_and_reduced(place.held.dense, place.tables),
           ShardLink());
    }
    if (replicas > 1) {
      over(2 * (replicas - 1) / replicas * workload_.bytes.gradient * place.held.dense.trained /
               shards,
           links.dp_replicate > 0 ? links.dp_replicate : links.dp_shard);
    }
    double expert_shards = ExpertShards(workload_);
    if (expert_shards > 1 && dims.ep > 1) {
      bool inside = dims.ep * dims.ep_shard() <= workload_.node.nvlink_domain_gpus;
      over((expert_shards - 1) / expert_shards * gathered_and_reduced(place.held.experts, 0),
           inside ? workload_.node.nvlink_gb_per_s : workload_.node.network_gb_per_s);
    }
    if (seconds <= 0) return;
    double share = workload_.kernels.prefetch ? kExposedWithPrefetch : kExposed;
    // What outlasts the computation shows, whatever the schedule.
    double exposed = std::max(share * seconds, seconds - estimate_.seconds);
    Add("sharding traffic", exposed,
        absl::StrFormat("%.3g s of gathers and reductions at %.2f of the links, %.0f %% not hidden",
                        seconds, calibration_.links, 100 * exposed / seconds));
  }

  void Optimizer(const Place& place) {
    double numbers = place.held.dense.trained / DenseShards(workload_) +
                     place.held.experts.trained / ExpertShards(workload_);
    Add("optimizer", numbers * kOptimizerBytes / rates_.memory,
        absl::StrFormat("%.3g numbers · %g B / %.0f GB/s", numbers, kOptimizerBytes,
                        rates_.memory / 1e9));
  }

  void Host(const Place& place) {
    if (workload_.dims.world() <= 1) return;  // plain tensors: hidden
    Add("host work on tensors", place.tensors * calibration_.tensor_s,
        absl::StrFormat("%g tensors · %.2f ms", place.tensors, calibration_.tensor_s * 1e3));
  }

  void Finish() {
    double tokens = static_cast<double>(workload_.global_batch_size * workload_.seq_length);
    estimate_.tokens_per_s = tokens / estimate_.seconds;
    estimate_.low_seconds = estimate_.high_seconds = estimate_.seconds;
    if (workload_.recompute_assumed) {
      estimate_.notes.push_back(
          workload_.recompute == Recompute::kNone
              ? "the recipe does not say; assumed that no activations are recomputed"
              : "the recipe does not say; assumed that activations are recomputed");
    }
    if (!workload_.real_data) return;
    bool uneven = workload_.dims.cp > 1 || !workload_.shape->towers.empty();
    double high = uneven ? kUnevenDataHigh : kRealDataHigh;
    estimate_.low_seconds = kRealDataLow * estimate_.seconds;
    estimate_.high_seconds = high * estimate_.seconds;
    estimate_.notes.push_back(absl::StrFormat(
        "real data: expect %g to %g times as long, for padding, loading and uneven work of ranks",
        kRealDataLow, high));
  }

  const Workload& workload_;
  const Calibration& calibration_;
  Rates rates_;
  double tokens_ = 0;         // of a micro-batch on a rank
  double micro_batches_ = 1;  // of a step
  double head_flops_ = 0;
  double head_bytes_ = 0;
  std::vector<Place> places_;  // by pipeline rank
  StepTimeEstimate estimate_;
};

}  // namespace

StepTimeEstimate EstimateStepTime(const Workload& workload, const Calibration& calibration) {
  return StepTimer(workload, calibration).Estimate();
}

}  // namespace am::plan

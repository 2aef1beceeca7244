// What to change where a step does not fit, each cure tried by estimating again.
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>

#include "launcher/plan/memory.h"

namespace am::plan {
namespace {

// Cures in the order of what they cost: nothing but a kernel first, then time, then machines, then
// what is trained.
class Cures {
 public:
  explicit Cures(const Workload& workload)
      : now_(workload), before_(EstimateMemory(workload).worst.total()) {}

  std::vector<MemoryCure> Find() {
    FuseLoss();
    ReduceEveryMicroBatch();
    SmallerBatch();
    Recomputation();
    SmallerMoments();
    WiderShards();
    MoreStages();
    ShardSequence();
    MoreNodes();
    Adapters();
    std::stable_partition(found_.begin(), found_.end(),
                          [](const MemoryCure& cure) { return cure.after.fits(); });
    if (found_.empty() || !found_.front().after.fits()) {
      std::stable_sort(found_.begin(), found_.end(), [](const MemoryCure& a, const MemoryCure& b) {
        return a.after.worst.total() < b.after.worst.total();
      });
    }
    if (found_.size() > 3) found_.resize(3);
    return std::move(found_);
  }

 private:
  // Keeps a change that helps; whether it then fits.
  bool Try(std::string change, std::string cost, const Workload& changed) {
    MemoryEstimate after = EstimateMemory(changed);
    if (after.worst.total() > 0.99 * before_) return false;
    found_.push_back({std::move(change), std::move(cost), std::move(after)});
    return found_.back().after.fits();
  }

  void FuseLoss() {
    if (now_.kernels.fused_loss) return;
    Workload w = now_;
    w.kernels.fused_loss = true;
    Try("loss_fn._target_: nemo_automodel.components.loss.linear_ce.FusedLinearCrossEntropy",
        "none", w);
  }

  void ReduceEveryMicroBatch() {
    if (!now_.keeps_full_gradients) return;
    Workload w = now_;
    w.keeps_full_gradients = false;
    Try("distributed.defer_fsdp_grad_sync: false", "gradients are reduced each micro-batch", w);
  }

  void SmallerBatch() {
    int64_t micro = std::max<int64_t>(1, now_.micro_batch_size);
    if (now_.dims.pp > 1) {
      if (micro == 1) return;
      Workload w = now_;
      w.micro_batch_size = 1;
      Try("distributed.pipeline.pp_microbatch_size: 1", "smaller products", w);
      return;
    }
    // The largest that fits, else the smallest.
    for (int64_t batch = now_.local_batch_size - 1; batch >= 1; --batch) {
      if (now_.local_batch_size % batch != 0) continue;
      Workload w = now_;
      w.local_batch_size = w.micro_batch_size = batch;
      w.grad_acc_steps = now_.grad_acc_steps * (now_.local_batch_size / batch);
      if (batch > 1 && !EstimateMemory(w).fits()) continue;
      Try(absl::StrCat("step_scheduler.local_batch_size: ", batch), "smaller products", w);
      return;
    }
  }

  void Recomputation() {
    if (now_.recompute == Recompute::kFull) return;
    Workload w = now_;
    if (now_.recompute == Recompute::kNone && now_.strategy == "fsdp2") {
      w.recompute = Recompute::kSelective;
      if (EstimateMemory(w).fits()) {
        Try("distributed.activation_checkpointing: selective", "about 15 % more compute", w);
        return;
      }
    }
    w.recompute = Recompute::kFull;
    Try("distributed.activation_checkpointing: true", "about 30 % more compute", w);
  }

  void SmallerMoments() {
    if (now_.bytes.moment1 <= 2 && now_.bytes.moment2 <= 2) return;
    Workload w = now_;
    w.bytes.moment1 = std::min(w.bytes.moment1, 2.0);
    w.bytes.moment2 = std::min(w.bytes.moment2, 2.0);
    Try("optimizer.exp_avg_dtype: bfloat16, optimizer.exp_avg_sq_dtype: bfloat16",
        "coarser moments", w);
  }

  // More tp or ep from the same ranks.
  void WiderShards() {
    const model::ModelShape& shape = *now_.shape;
    const int ranks = now_.dims.dp_shard * now_.dims.cp * now_.dims.tp;
    if (shape.num_experts > 0 && now_.dims.ep * 2 <= ranks * now_.dims.dp_replicate &&
        shape.num_experts % (now_.dims.ep * 2) == 0 &&
        now_.dims.dp() * now_.dims.cp % (now_.dims.ep * 2) == 0) {
      Workload w = now_;
      w.dims.ep *= 2;
      Try(absl::StrCat("distributed.ep_size: ", w.dims.ep), "more all-to-all traffic", w);
    }
    int64_t heads = 0, kv_heads = 0;
    for (const model::Layer& layer : shape.kinds) {
      if (layer.attention) heads = layer.attention->heads, kv_heads = layer.attention->kv_heads;
    }
    const int tp = now_.dims.tp * 2;
    if (now_.dims.dp_shard % 2 != 0 || heads % tp != 0 || kv_heads % tp != 0 ||
        tp > std::max(1, now_.node.gpus) || now_.strategy == "ddp" || now_.dims.ep > 1) {
      return;
    }
    Workload w = now_;
    w.dims.tp = tp;
    w.dims.dp_shard /= 2;
    w.grad_acc_steps *= 2;
    w.sequence_parallel = true;
    Try(absl::StrCat("distributed.tp_size: ", tp, ", distributed.sequence_parallel: true"),
        "traffic in every layer", w);
  }

  void MoreStages() {
    if (now_.dims.dp_shard % 2 != 0 || now_.strategy == "ddp") return;
    Workload w = now_;
    w.dims.pp *= 2;
    w.dims.dp_shard /= 2;
    w.micro_batch_size = 1;
    int64_t micro_batches = w.local_batch_size;
    if (micro_batches < w.dims.pp || w.dims.ep > w.dims.dp() * w.dims.cp ||
        static_cast<size_t>(w.dims.pp * w.virtual_stages) > w.shape->layers.size()) {
      return;
    }
    w.layers_of_stage.clear();
    w.keeps_gathered = true;
    Try(absl::StrCat("distributed.pp_size: ", w.dims.pp), "a pipeline bubble", w);
  }

  void ShardSequence() {
    if (now_.dims.dp_shard % 2 != 0 || now_.seq_length < 8192 || now_.strategy == "ddp") return;
    Workload w = now_;
    w.dims.cp *= 2;
    w.dims.dp_shard /= 2;
    w.grad_acc_steps *= 2;
    Try(absl::StrCat("distributed.cp_size: ", w.dims.cp), "keys and values sent around", w);
  }

  // Up to eight times the ranks, as far as the global batch goes.
  void MoreNodes() {
    if (now_.strategy == "ddp") return;
    for (int factor = 2; factor <= 8; factor *= 2) {
      if (now_.grad_acc_steps % factor != 0) return;
      Workload w = now_;
      w.dims.dp_shard *= factor;
      w.grad_acc_steps /= factor;
      if (factor < 8 && now_.grad_acc_steps % (factor * 2) == 0 && !EstimateMemory(w).fits())
        continue;
      Try(absl::StrFormat("%d times the nodes", factor), "machines", w);
      return;
    }
  }

  void Adapters() {
    Workload w = now_;
    if (!now_.adapter) {
      Adapter adapter;
      for (const model::Layer& layer : now_.shape->kinds) {
        for (const model::Weight& weight : layer.weights) {
          bool fits = weight.in > 0 && weight.role != model::Role::kExpert &&
                      weight.role != model::Role::kRouter && weight.name.ends_with("_proj");
          if (fits) adapter.modules.push_back(weight.name);
        }
      }
      w.adapter = std::move(adapter);
      w.bytes.frozen = w.bytes.parameter;
      if (Try("peft: {_target_: nemo_automodel.components._peft.lora.PeftConfig, "
              "target_modules: '*_proj', dim: 8}",
              "trains adapters alone", w)) {
        return;
      }
    }
    if (w.bytes.frozen > 1) {
      w.bytes.frozen = 0.5 + 1.0 / 64 + 4.0 / (64 * 256);  // NF4, its scales quantised, too
      Try("quantization.load_in_4bit: true with peft", "a coarser base", w);
    }
  }

  const Workload& now_;
  const double before_;
  std::vector<MemoryCure> found_;
};

}  // namespace

std::vector<MemoryCure> CuresFor(const Workload& workload) { return Cures(workload).Find(); }

std::string WhyItDoesNotFit(const Workload& workload) {
  MemoryEstimate memory = EstimateMemory(workload);
  if (memory.fits()) return "";
  const RankMemory& worst = memory.worst;
  std::string text = absl::StrFormat(
      "needs %.1f GiB of the %.1f GiB of a %s%s (parameters %.1f, gradients %.1f, optimizer %.1f, "
      "activations %.1f, the rest %.1f)",
      worst.total(), memory.limit, workload.node.gpus > 0 ? "GPU" : "rank",
      workload.dims.pp > 1 ? absl::StrCat(" of pipeline rank ", memory.worst_stage) : "",
      worst.parameters, worst.gradients, worst.optimizer, worst.activations,
      worst.buffers + worst.overhead);
  std::vector<MemoryCure> cures = CuresFor(workload);
  if (cures.empty()) return text + "; no single change of the recipe makes it smaller";
  text += cures.front().after.fits() ? "; use " : "; no single change is enough, most help ";
  for (size_t i = 0; i < cures.size(); ++i) {
    if (i > 0) text += i + 1 == cures.size() ? " or " : ", ";
    absl::StrAppendFormat(&text, "%s (%.1f GiB)", cures[i].change, cures[i].after.worst.total());
  }
  return text;
}

}  // namespace am::plan

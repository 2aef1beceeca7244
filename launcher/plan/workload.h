// Workload: one training step as the estimates see it: a model's shape, a layout, a batch, what is
// kept in which precision, and the machine. Everything that memory.h, step_time.h and flops.h need,
// and nothing of YAML, so that a search can vary it and a test can write one down.
//   Workload workload = MakeWorkload(recipe, plan, shape, cluster.node);
//   MemoryEstimate memory = EstimateMemory(workload);
//   StepTimeEstimate time = EstimateStepTime(workload);
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/model/shape.h"
#include "launcher/plan/cluster.h"
#include "launcher/plan/parallel_dims.h"

namespace am::plan {

enum class Precision { kFloat32, kBfloat16, kFloat16, kFp8, kMxfp8 };  // of the large products
enum class Recompute { kNone, kSelective, kFull };
enum class AttentionKernel { kTransformerEngine, kFlash, kSdpa, kFlex, kTileLang, kEager };
enum class Dispatcher { kTorch, kDeepEp, kHybridEp };

// Low-rank adapters on a frozen base.
struct Adapter {
  int64_t rank = 8;
  std::vector<std::string> modules;  // names of Weight, matched already
};

// Bytes that a number takes; 0 where nothing of the kind is kept.
struct StateBytes {
  double parameter = 2;  // as computed with
  // As a shard is stored between steps; 0: as computed with. 4 for float32 parameters that are cast
  // to bfloat16 when they are gathered (mp_policy); `master` is then 0: they are their own.
  double resident = 0;
  double gradient = 4;  // as accumulated and reduced
  double master = 4;    // the optimizer's own copy
  double moment1 = 4;
  double moment2 = 4;
  double frozen = 2;  // a frozen base: 2, 1 (8 bits) or about 0.52 (4 bits with scales)
};

struct Kernels {
  AttentionKernel attention = AttentionKernel::kTransformerEngine;
  bool fused_elementwise = true;  // norms, activations and rotary fused (Transformer Engine)
  bool grouped_experts = true;    // grouped products, not a loop over experts
  bool prefetch = false;          // FSDP gathers the next layer during this one
  bool fused_loss = false;        // logits never stored whole (fused or chunked cross entropy)
  bool compiled = false;
  bool quantized_dense = true;  // FP8 and MXFP8 cover the dense projections, not experts alone
  Dispatcher dispatcher = Dispatcher::kTorch;
};

// GB/s a GPU and direction that the groups of an axis reach; 0 where the axis has size 1.
struct AxisBandwidth {
  double tp = 0, cp = 0, pp = 0, ep = 0, dp_shard = 0, dp_replicate = 0;
  double ep_nodes = 1;  // nodes that an EP group spans
};

struct Workload {
  std::shared_ptr<const model::ModelShape> shape;
  NodeShape node;
  ParallelDims dims;
  AxisBandwidth bandwidth;
  std::string strategy = "fsdp2";  // fsdp2, megatron_fsdp, ddp

  int64_t seq_length = 0;
  int64_t global_batch_size = 0;
  int64_t local_batch_size = 0;
  int64_t micro_batch_size = 0;  // of the pipeline; the local batch without one
  int64_t grad_acc_steps = 1;
  int virtual_stages = 1;            // a rank
  std::vector<int> layers_of_stage;  // by stage, pp · virtual_stages of them
  // Weights stay gathered after forward: under a pipeline, with ep > 1 unless
  // moe.reshard_after_forward, and where fsdp's reshard_after_forward is false.
  bool keeps_gathered = false;
  // Whole gradients are kept between micro-batches and reduced after the last one
  // (defer_fsdp_grad_sync).
  bool keeps_full_gradients = false;
  bool gradient_buckets = false;   // DDP reduces in buckets that are no views of the gradients
  bool sequence_parallel = false;  // tp also cuts norms and residuals
  int ranks_per_node = 0;          // 0: one a GPU
  bool trains_towers = false;      // of a multimodal model

  Precision precision = Precision::kBfloat16;
  StateBytes bytes;
  std::optional<Adapter> adapter;  // nothing: every weight is trained
  Recompute recompute = Recompute::kNone;
  bool recompute_assumed = false;  // the recipe is silent, so memory decided
  bool balanced_routing = false;   // fake_balanced_gate
  bool real_data = false;          // lengths vary: times are a range
  int64_t mtp_depths = 0;          // trained
  Kernels kernels;
};

// One line of an estimate, as `--explain` prints it.
struct Term {
  std::string name;     // "expert products"
  double value = 0;     // GiB or seconds, as the estimate says
  std::string formula;  // with the numbers in: "2 · 6.1e12 FLOP / (0.62 · 989 TFLOP/s)"
};

}  // namespace am::plan

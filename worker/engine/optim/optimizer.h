// Optimizer: Adam, AdamW and SGD over flat local shards, one fused pass a step.
//
// Equals torch.optim (the formulas of Adam: Kingma & Ba 2015, AdamW: Loshchilov & Hutter 2019, as
// torch.optim orders them) in float32. Each slot is a flat piece that this rank owns: under DDP a
// whole parameter, under FSDP2 its shard.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "worker/rank_io/rank_spec.h"

namespace am::engine {

// One flat piece of a trainable parameter. All tensors are contiguous, 1-D and of the same length.
struct OptimizerSlot {
  std::string name;  // the parameter's name
  at::Tensor
      master;  // float32 (or the compute dtype where the recipe keeps no master): what is updated
  at::Tensor compute;  // what the model reads; undefined when master is what the model reads
  at::Tensor grad;     // float32 or bfloat16; set before Step, may change from step to step
  double lr_mult = 1;
  double wd_mult = 1;
};

// The state of one slot that a checkpoint keeps; names as in torch.optim: exp_avg, exp_avg_sq,
// max_exp_avg_sq, momentum_buffer.
struct OptimizerState {
  std::string name;
  std::vector<std::pair<std::string, at::Tensor>> tensors;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // slot.grad * grad_scale is the gradient (grad_scale carries the clipping factor). Updates
  // master, then compute.
  virtual void Step(std::vector<OptimizerSlot>& slots, double lr, double weight_decay,
                    double grad_scale) = 0;
  virtual std::vector<OptimizerState>
  State() = 0;  // views, not copies; state is allocated on construction
  virtual int64_t steps_taken() const = 0;
  virtual void set_steps_taken(int64_t steps) = 0;
};

// Throws am::Error (kUser) for a kind or an option that is not known.
std::unique_ptr<Optimizer> MakeOptimizer(const OptimizerSpec& spec,
                                         const std::vector<OptimizerSlot>& slots);

// Sum of squares of a flat tensor in double precision, multi-threaded and deterministic for a given
// thread count.
double SumOfSquares(const at::Tensor& tensor);

}  // namespace am::engine

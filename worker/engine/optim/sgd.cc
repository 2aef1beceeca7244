#include "worker/engine/optim/sgd.h"

#include <ATen/ops/zeros.h>

#include "common/error.h"
#include "worker/engine/optim/slot_blocks.h"
#include "worker/engine/optim/update_loops.h"

namespace am::engine {
namespace {

class Sgd : public Optimizer {
 public:
  Sgd(const OptimizerSpec& spec, const std::vector<OptimizerSlot>& slots) : spec_(spec) {
    if (spec.nesterov && (spec.momentum <= 0 || spec.dampening != 0)) {
      throw UserError("optimizer.nesterov: needs a momentum above 0 and no dampening");
    }
    for (const OptimizerSlot& slot : slots) {
      names_.push_back(slot.name);
      buffers_.push_back(spec.momentum == 0 ? at::Tensor()
                                            : at::zeros({slot.master.numel()},
                                                        slot.master.options().dtype(at::kFloat)));
      CheckSlot(slot, buffers_.back());
    }
  }

  void Step(std::vector<OptimizerSlot>& slots, double lr, double weight_decay,
            double grad_scale) override {
    if (slots.size() != buffers_.size()) {
      throw InternalError("optimizer: made for " + std::to_string(buffers_.size()) +
                          " slots, given " + std::to_string(slots.size()));
    }
    std::vector<SgdScalars> scalars;
    bool on_cpu = false;
    for (size_t i = 0; i < slots.size(); ++i) {
      CheckSlot(slots[i], buffers_[i]);
      scalars.push_back(Scalars(slots[i], lr, weight_decay, grad_scale));
      if (slots[i].master.is_cpu()) {
        on_cpu = true;
      } else if (slots[i].grad.defined()) {
        SgdByOperators(slots[i], buffers_[i], scalars[i]);
      }
    }
    ++steps_taken_;
    if (!on_cpu) return;
    ForEachBlock(slots, [&](size_t i, int64_t begin, int64_t end) {
      const OptimizerSlot& slot = slots[i];
      if (!slot.grad.defined() || !slot.master.is_cpu()) return;
      const int64_t n = end - begin;
      FloatBlock weight(slot.master, begin, n);
      FloatBlock grad(slot.grad, begin, n);
      float* buffer =
          buffers_[i].defined() ? static_cast<float*>(buffers_[i].data_ptr()) + begin : nullptr;
      SgdBlock(weight.data(), grad.data(), buffer, n, scalars[i]);
      weight.Store();
      if (slot.compute.defined()) StoreBlock(weight.data(), slot.compute, begin, n);
    });
  }

  std::vector<OptimizerState> State() override {
    std::vector<OptimizerState> state;
    for (size_t i = 0; i < names_.size(); ++i) {
      state.push_back({names_[i], {}});
      if (buffers_[i].defined()) {
        state.back().tensors.emplace_back("momentum_buffer", buffers_[i]);
      }
    }
    return state;
  }
  int64_t steps_taken() const override { return steps_taken_; }
  void set_steps_taken(int64_t steps) override { steps_taken_ = steps; }

 private:
  SgdScalars Scalars(const OptimizerSlot& slot, double lr, double weight_decay,
                     double grad_scale) const {
    SgdScalars s;
    s.grad_scale = static_cast<float>(spec_.maximize ? -grad_scale : grad_scale);
    s.l2 = static_cast<float>(weight_decay * slot.wd_mult);
    s.lr = static_cast<float>(lr * slot.lr_mult);
    s.momentum = static_cast<float>(spec_.momentum);
    s.gradient_share = static_cast<float>(1 - spec_.dampening);
    s.nesterov = spec_.nesterov;
    s.first = steps_taken_ == 0;
    return s;
  }

  OptimizerSpec spec_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> buffers_;
  int64_t steps_taken_ = 0;
};

}  // namespace

void SgdByOperators(const OptimizerSlot& slot, const at::Tensor& buffer, const SgdScalars& s) {
  const bool widen = slot.master.scalar_type() != at::kFloat;
  at::Tensor weight = widen ? slot.master.to(at::kFloat) : slot.master;
  at::Tensor g = slot.grad.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
  g.mul_(s.grad_scale);
  if (s.l2 != 0) g.add_(weight, s.l2);
  if (buffer.defined()) {
    if (s.first) {
      buffer.copy_(g);
    } else {
      buffer.mul_(s.momentum).add_(g, s.gradient_share);
    }
    g = s.nesterov ? g.add(buffer, s.momentum) : buffer;
  }
  weight.add_(g, -s.lr);
  if (widen) slot.master.copy_(weight);
  if (slot.compute.defined()) slot.compute.copy_(weight);
}

std::unique_ptr<Optimizer> MakeSgd(const OptimizerSpec& spec,
                                   const std::vector<OptimizerSlot>& slots) {
  return std::make_unique<Sgd>(spec, slots);
}

}  // namespace am::engine

#include "worker/engine/optim/adam.h"

#include <ATen/ops/maximum.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <utility>

#include "common/error.h"
#include "worker/engine/core/memory.h"
#include "worker/engine/optim/slot_blocks.h"
#include "worker/engine/optim/update_loops.h"

namespace am::engine {
namespace {

at::ScalarType MomentDtype(const std::string& key, const std::string& name) {
  if (name == "float32") return at::kFloat;
  if (name == "bfloat16") return at::kBFloat16;
  if (name == "float16") return at::kHalf;
  throw UserError("optimizer." + key + ": unknown dtype '" + name +
                  "'; use float32, bfloat16 or float16");
}

void StepBlock(const OptimizerSlot& slot, const AdamMoments& moments, int64_t begin, int64_t end,
               const AdamScalars& scalars) {
  const int64_t n = end - begin;
  FloatBlock weight(slot.master, begin, n);
  FloatBlock grad(slot.grad, begin, n);
  FloatBlock m(moments.exp_avg, begin, n);
  FloatBlock v(moments.exp_avg_sq, begin, n);
  if (moments.max_exp_avg_sq.defined()) {
    FloatBlock max_v(moments.max_exp_avg_sq, begin, n);
    AdamBlock(weight.data(), grad.data(), m.data(), v.data(), max_v.data(), n, scalars);
    max_v.Store();
  } else {
    AdamBlock(weight.data(), grad.data(), m.data(), v.data(), nullptr, n, scalars);
  }
  m.Store();
  v.Store();
  weight.Store();
  if (slot.compute.defined()) StoreBlock(weight.data(), slot.compute, begin, n);
}

class Adam : public Optimizer {
 public:
  Adam(const OptimizerSpec& spec, bool decoupled, const std::vector<OptimizerSlot>& slots)
      : spec_(spec), decoupled_(decoupled) {
    const at::ScalarType m = MomentDtype("exp_avg_dtype", spec.exp_avg_dtype);
    const at::ScalarType v = MomentDtype("exp_avg_sq_dtype", spec.exp_avg_sq_dtype);
    // One block of memory for each moment of all slots.
    int64_t total = 0;
    for (const OptimizerSlot& slot : slots) total += slot.master.numel();
    const auto block = [&](at::ScalarType dtype) {
      return slots.empty() ? at::Tensor()
                           : ZeroPages(total, slots[0].master.options().dtype(dtype));
    };
    const at::Tensor exp_avg = block(m), exp_avg_sq = block(v),
                     largest = spec.amsgrad ? block(v) : at::Tensor();
    blocks_ = {exp_avg, exp_avg_sq, largest};
    int64_t begin = 0;
    for (const OptimizerSlot& slot : slots) {
      const auto part = [&](const at::Tensor& of) {
        return of.defined() ? of.narrow(0, begin, slot.master.numel()) : at::Tensor();
      };
      names_.push_back(slot.name);
      moments_.push_back({part(exp_avg), part(exp_avg_sq), part(largest)});
      CheckSlot(slot, moments_.back().exp_avg);
      begin += slot.master.numel();
    }
  }

  void Step(std::vector<OptimizerSlot>& slots, double lr, double weight_decay,
            double grad_scale) override {
    if (slots.size() != moments_.size()) {
      throw InternalError("optimizer: made for " + std::to_string(moments_.size()) +
                          " slots, given " + std::to_string(slots.size()));
    }
    ++steps_taken_;
    std::vector<AdamScalars> scalars;
    bool on_cpu = false;
    for (size_t i = 0; i < slots.size(); ++i) {
      CheckSlot(slots[i], moments_[i].exp_avg);
      scalars.push_back(Scalars(slots[i], lr, weight_decay, grad_scale));
      if (slots[i].master.is_cpu()) {
        on_cpu = true;
      } else if (slots[i].grad.defined()) {
        AdamByOperators(slots[i], moments_[i], scalars[i]);
      }
    }
    if (!on_cpu) return;
    for (const at::Tensor& block : std::exchange(blocks_, {})) PopulatePages(block);
    ForEachBlock(slots, [&](size_t i, int64_t begin, int64_t end) {
      if (slots[i].grad.defined() && slots[i].master.is_cpu()) {
        StepBlock(slots[i], moments_[i], begin, end, scalars[i]);
      }
    });
  }

  std::vector<OptimizerState> State() override {
    std::vector<OptimizerState> state;
    for (size_t i = 0; i < names_.size(); ++i) {
      state.push_back(
          {names_[i], {{"exp_avg", moments_[i].exp_avg}, {"exp_avg_sq", moments_[i].exp_avg_sq}}});
      if (spec_.amsgrad) {
        state.back().tensors.emplace_back("max_exp_avg_sq", moments_[i].max_exp_avg_sq);
      }
    }
    return state;
  }
  int64_t steps_taken() const override { return steps_taken_; }
  void set_steps_taken(int64_t steps) override { steps_taken_ = steps; }

 private:
  AdamScalars Scalars(const OptimizerSlot& slot, double lr, double weight_decay,
                      double grad_scale) const {
    const double t = static_cast<double>(steps_taken_);
    const double slot_lr = lr * slot.lr_mult;
    const double slot_decay = weight_decay * slot.wd_mult;
    AdamScalars s;
    s.grad_scale = static_cast<float>(spec_.maximize ? -grad_scale : grad_scale);
    s.l2 = static_cast<float>(decoupled_ ? 0 : slot_decay);
    s.keep = static_cast<float>(decoupled_ ? 1 - slot_lr * slot_decay : 1);
    s.beta1_rest = static_cast<float>(1 - spec_.beta1);
    s.beta2 = static_cast<float>(spec_.beta2);
    s.beta2_rest = static_cast<float>(1 - spec_.beta2);
    s.bias2_sqrt = static_cast<float>(std::sqrt(1 - std::pow(spec_.beta2, t)));
    s.eps = static_cast<float>(spec_.eps);
    s.step_size = static_cast<float>(slot_lr / (1 - std::pow(spec_.beta1, t)));
    return s;
  }

  OptimizerSpec spec_;
  bool decoupled_;
  std::vector<std::string> names_;
  std::vector<AdamMoments> moments_;
  std::vector<at::Tensor> blocks_;  // that hold the moments; until the first step
  int64_t steps_taken_ = 0;
};

}  // namespace

void AdamByOperators(const OptimizerSlot& slot, const AdamMoments& moments, const AdamScalars& s) {
  const bool widen = slot.master.scalar_type() != at::kFloat;
  at::Tensor weight = widen ? slot.master.to(at::kFloat) : slot.master;
  at::Tensor g = slot.grad.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
  g.mul_(s.grad_scale);
  if (s.l2 != 0) g.add_(weight, s.l2);
  if (s.keep != 1) weight.mul_(s.keep);
  at::Tensor m = moments.exp_avg.to(at::kFloat);
  m.lerp_(g, s.beta1_rest);
  at::Tensor v = moments.exp_avg_sq.to(at::kFloat);
  v.mul_(s.beta2).addcmul_(g, g, s.beta2_rest);
  at::Tensor second = v;
  if (moments.max_exp_avg_sq.defined()) {
    second = at::maximum(moments.max_exp_avg_sq.to(at::kFloat), v);
    moments.max_exp_avg_sq.copy_(second);
  }
  weight.addcdiv_(m, second.sqrt().div_(s.bias2_sqrt).add_(s.eps), -s.step_size);
  if (!m.is_same(moments.exp_avg)) moments.exp_avg.copy_(m);
  if (!v.is_same(moments.exp_avg_sq)) moments.exp_avg_sq.copy_(v);
  if (widen) slot.master.copy_(weight);
  if (slot.compute.defined()) slot.compute.copy_(weight);
}

std::unique_ptr<Optimizer> MakeAdam(const OptimizerSpec& spec, bool decoupled_weight_decay,
                                    const std::vector<OptimizerSlot>& slots) {
  return std::make_unique<Adam>(spec, decoupled_weight_decay, slots);
}

}  // namespace am::engine

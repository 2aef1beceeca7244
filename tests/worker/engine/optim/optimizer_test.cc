#include "worker/engine/optim/optimizer.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "worker/engine/optim/adam.h"
#include "worker/engine/optim/sgd.h"

namespace am::engine {
namespace {

constexpr double kLr = 1e-2;
constexpr double kDecay = 0.1;
const std::vector<int64_t> kSizes = {1, 17, 1024, 5003};  // below, at and above a block

std::vector<OptimizerSlot> MakeSlots(at::ScalarType master = at::kFloat) {
  at::manual_seed(42);  // LibTorch seeds itself at random
  std::vector<OptimizerSlot> slots;
  for (int64_t n : kSizes) {
    slots.push_back({.name = "weight" + std::to_string(n), .master = at::randn({n}).to(master)});
  }
  return slots;
}

void SetGradients(std::vector<OptimizerSlot>& slots) {
  for (OptimizerSlot& slot : slots) slot.grad = at::randn({slot.master.numel()});
}

// Relative to the weights' size, which is about 1.
double RelativeError(const at::Tensor& value, const at::Tensor& expected) {
  const at::Tensor a = value.to(at::kDouble), b = expected.to(at::kDouble);
  return ((a - b).abs().max() / b.abs().max().clamp_min(1)).item<double>();
}

// 20 steps of LibTorch's own fused optimizer (that of torch.optim with fused=True) beside ours.
void ExpectEqualToTorch(const OptimizerSpec& spec) {
  SCOPED_TRACE(testing::Message() << spec.kind << " amsgrad " << spec.amsgrad << " maximize "
                                  << spec.maximize << " momentum " << spec.momentum);
  std::vector<OptimizerSlot> slots = MakeSlots();
  std::vector<at::Tensor> weights, m, v, max_v, steps;
  for (const OptimizerSlot& slot : slots) {
    weights.push_back(slot.master.clone());
    m.push_back(at::zeros_like(slot.master));
    v.push_back(at::zeros_like(slot.master));
    if (spec.amsgrad) max_v.push_back(at::zeros_like(slot.master));
    steps.push_back(at::full({}, 0.0f));
  }
  auto optimizer = MakeOptimizer(spec, slots);
  for (int step = 0; step < 20; ++step) {
    SetGradients(slots);
    std::vector<at::Tensor> grads;
    for (const OptimizerSlot& slot : slots) grads.push_back(slot.grad.clone());
    const double lr = kLr / (1 + step);
    if (spec.kind == "sgd") {
      at::_fused_sgd_(weights, grads, spec.momentum == 0 ? std::vector<at::Tensor>() : m, kDecay,
                      spec.momentum, lr, spec.dampening, spec.nesterov, spec.maximize, step == 0);
    } else {
      for (at::Tensor& count : steps) count.add_(1);
      if (spec.kind == "adam") {
        at::_fused_adam_(weights, grads, m, v, max_v, steps, lr, spec.beta1, spec.beta2, kDecay,
                         spec.eps, spec.amsgrad, spec.maximize);
      } else {
        at::_fused_adamw_(weights, grads, m, v, max_v, steps, lr, spec.beta1, spec.beta2, kDecay,
                          spec.eps, spec.amsgrad, spec.maximize);
      }
    }
    optimizer->Step(slots, lr, kDecay, 1);
  }
  EXPECT_EQ(optimizer->steps_taken(), 20);
  for (size_t i = 0; i < slots.size(); ++i) {
    EXPECT_LT(RelativeError(slots[i].master, weights[i]), 5e-7) << slots[i].name;
  }
}

TEST(OptimizerTest, EqualsTorchAdamAndAdamW) {
  for (const char* kind : {"adam", "adamw"}) {
    for (bool amsgrad : {false, true}) {
      for (bool maximize : {false, true}) {
        OptimizerSpec spec;
        spec.kind = kind;
        spec.amsgrad = amsgrad;
        spec.maximize = maximize;
        ExpectEqualToTorch(spec);
        spec.beta1 = 0.3;  // torch.lerp takes its other form
        ExpectEqualToTorch(spec);
      }
    }
  }
}

TEST(OptimizerTest, EqualsTorchSgd) {
  for (double momentum : {0.0, 0.9}) {
    for (double dampening : {0.0, 0.2}) {
      for (bool nesterov : {false, true}) {
        if (nesterov && (momentum == 0 || dampening != 0)) continue;
        OptimizerSpec spec;
        spec.kind = "sgd";
        spec.momentum = momentum;
        spec.dampening = dampening;
        spec.nesterov = nesterov;
        ExpectEqualToTorch(spec);
        spec.maximize = true;
        ExpectEqualToTorch(spec);
      }
    }
  }
}

TEST(OptimizerTest, GivesTheSameInPlainOperatorsAsInBlocks) {
  OptimizerSlot slot{.name = "weight", .master = at::randn({3000})};
  OptimizerSlot other = slot;
  other.master = slot.master.clone();
  slot.compute = at::zeros_like(slot.master, at::kBFloat16);
  other.compute = slot.compute.clone();
  OptimizerSpec spec;
  spec.kind = "adamw";
  spec.amsgrad = true;
  auto optimizer = MakeOptimizer(spec, {slot});
  const AdamMoments moments{at::zeros_like(slot.master), at::zeros_like(slot.master),
                            at::zeros_like(slot.master)};
  for (int t = 1; t <= 5; ++t) {
    slot.grad = other.grad = at::randn({3000});
    std::vector<OptimizerSlot> slots{slot};
    optimizer->Step(slots, kLr, kDecay, 0.5);
    AdamScalars s;
    s.grad_scale = 0.5f;
    s.keep = static_cast<float>(1 - kLr * kDecay);
    s.bias2_sqrt = static_cast<float>(std::sqrt(1 - std::pow(spec.beta2, t)));
    s.step_size = static_cast<float>(kLr / (1 - std::pow(spec.beta1, t)));
    AdamByOperators(other, moments, s);
  }
  EXPECT_LT(RelativeError(slot.master, other.master), 3e-7);
  EXPECT_LT(RelativeError(slot.compute, other.compute), 5e-3);

  spec.kind = "sgd";
  spec.momentum = 0.9;
  spec.nesterov = true;
  optimizer = MakeOptimizer(spec, {slot});
  const at::Tensor buffer = at::zeros_like(slot.master);
  other.master.copy_(slot.master);
  for (int t = 1; t <= 5; ++t) {
    slot.grad = other.grad = at::randn({3000});
    std::vector<OptimizerSlot> slots{slot};
    optimizer->Step(slots, kLr, kDecay, 2);
    SgdScalars s;
    s.grad_scale = 2;
    s.l2 = static_cast<float>(kDecay);
    s.lr = static_cast<float>(kLr);
    s.momentum = 0.9f;
    s.nesterov = true;
    s.first = t == 1;
    SgdByOperators(other, buffer, s);
  }
  EXPECT_LT(RelativeError(slot.master, other.master), 3e-7);
}

TEST(OptimizerTest, FoldsInTheGradientScaleAndTheMultipliersOfASlot) {
  std::vector<OptimizerSlot> slots = MakeSlots(), scaled;
  for (const OptimizerSlot& slot : slots) {
    scaled.push_back(slot);
    scaled.back().master = slot.master.clone();
    scaled.back().lr_mult = 0.5;
    scaled.back().wd_mult = 2;
  }
  OptimizerSpec spec;
  spec.kind = "adamw";
  auto optimizer = MakeOptimizer(spec, slots);
  auto other = MakeOptimizer(spec, scaled);
  SetGradients(slots);
  for (size_t i = 0; i < slots.size(); ++i) scaled[i].grad = slots[i].grad * 4;
  optimizer->Step(slots, kLr, kDecay, 1);
  other->Step(scaled, 2 * kLr, kDecay / 2, 0.25);
  for (size_t i = 0; i < slots.size(); ++i) {
    EXPECT_TRUE(slots[i].master.equal(scaled[i].master));
  }
}

TEST(OptimizerTest, WritesTheComputeCopyRoundedToNearestEven) {
  for (at::ScalarType dtype : {at::kBFloat16, at::kHalf, at::kFloat}) {
    std::vector<OptimizerSlot> slots = MakeSlots();
    for (OptimizerSlot& slot : slots) slot.compute = at::zeros_like(slot.master, dtype);
    auto optimizer = MakeOptimizer({}, slots);
    SetGradients(slots);
    optimizer->Step(slots, kLr, 0, 1);
    for (const OptimizerSlot& slot : slots) {
      EXPECT_TRUE(slot.compute.equal(slot.master.to(dtype))) << slot.name << dtype;
    }
  }
}

TEST(OptimizerTest, TakesSixteenBitGradientsMomentsAndMasters) {
  for (at::ScalarType master : {at::kFloat, at::kBFloat16}) {
    OptimizerSpec spec;
    spec.exp_avg_dtype = spec.exp_avg_sq_dtype = "bfloat16";
    std::vector<OptimizerSlot> slots = MakeSlots(master), exact;
    for (const OptimizerSlot& slot : slots) {
      exact.push_back({.name = slot.name, .master = slot.master.to(at::kFloat, false, true)});
    }
    auto optimizer = MakeOptimizer(spec, slots);
    auto reference = MakeOptimizer({}, exact);
    for (int step = 0; step < 5; ++step) {
      for (size_t i = 0; i < slots.size(); ++i) {
        slots[i].grad = at::randn({slots[i].master.numel()}).to(at::kBFloat16);
        exact[i].grad = slots[i].grad.to(at::kFloat);
      }
      optimizer->Step(slots, kLr, 0, 1);
      reference->Step(exact, kLr, 0, 1);
    }
    EXPECT_EQ(optimizer->State()[0].tensors[0].second.scalar_type(), at::kBFloat16);
    for (size_t i = 0; i < slots.size(); ++i) {
      EXPECT_LT(RelativeError(slots[i].master, exact[i].master), 2e-2) << slots[i].name;
    }
  }
}

TEST(OptimizerTest, ContinuesBitForBitFromASavedState) {
  for (const char* kind : {"adam", "adamw", "sgd"}) {
    OptimizerSpec spec;
    spec.kind = kind;
    spec.amsgrad = true;
    spec.momentum = 0.9;
    std::vector<OptimizerSlot> slots = MakeSlots();
    auto optimizer = MakeOptimizer(spec, slots);
    for (int step = 0; step < 3; ++step) {
      SetGradients(slots);
      optimizer->Step(slots, kLr, kDecay, 1);
    }
    std::vector<OptimizerSlot> resumed = slots;
    for (OptimizerSlot& slot : resumed) slot.master = slot.master.clone();
    auto other = MakeOptimizer(spec, resumed);
    const auto saved = optimizer->State();
    auto restored = other->State();
    ASSERT_EQ(saved.size(), restored.size());
    for (size_t i = 0; i < saved.size(); ++i) {
      EXPECT_EQ(saved[i].name, restored[i].name);
      for (size_t j = 0; j < saved[i].tensors.size(); ++j) {
        EXPECT_EQ(saved[i].tensors[j].first, restored[i].tensors[j].first);
        restored[i].tensors[j].second.copy_(saved[i].tensors[j].second);
      }
    }
    other->set_steps_taken(optimizer->steps_taken());
    for (int step = 0; step < 3; ++step) {
      SetGradients(slots);
      for (size_t i = 0; i < slots.size(); ++i) resumed[i].grad = slots[i].grad;
      optimizer->Step(slots, kLr, kDecay, 1);
      other->Step(resumed, kLr, kDecay, 1);
    }
    for (size_t i = 0; i < slots.size(); ++i) {
      EXPECT_TRUE(slots[i].master.equal(resumed[i].master)) << kind << slots[i].name;
    }
  }
}

TEST(OptimizerTest, DoesNotDependOnTheThreadCount) {
  const int threads = at::get_num_threads();
  std::vector<at::Tensor> results;
  const at::Tensor start = at::randn({100'003}), grad = at::randn({100'003});
  for (int count : {1, 3}) {
    at::set_num_threads(count);
    std::vector<OptimizerSlot> slots{{.name = "w", .master = start.clone(), .grad = grad}};
    MakeOptimizer({}, slots)->Step(slots, kLr, kDecay, 1);
    results.push_back(slots[0].master);
    EXPECT_EQ(SumOfSquares(slots[0].master), SumOfSquares(results[0]));
  }
  at::set_num_threads(threads);
  EXPECT_TRUE(results[0].equal(results[1]));
}

TEST(OptimizerTest, LeavesASlotWithoutAGradientAlone) {
  std::vector<OptimizerSlot> slots = MakeSlots();
  const at::Tensor before = slots[1].master.clone();
  auto optimizer = MakeOptimizer({}, slots);
  SetGradients(slots);
  slots[1].grad.reset();
  optimizer->Step(slots, kLr, kDecay, 1);
  EXPECT_TRUE(slots[1].master.equal(before));
}

TEST(OptimizerTest, NamesTheKindsAndOptionsThatItKnows) {
  const std::vector<std::pair<OptimizerSpec, const char*>> cases = {
      {{.kind = "lion"}, "unknown optimizer 'lion'; use adam, adamw or sgd"},
      {{.beta1 = 1}, "optimizer.betas"},
      {{.eps = -1}, "optimizer.eps"},
      {{.weight_decay = -0.1}, "optimizer.weight_decay"},
      {{.kind = "sgd", .nesterov = true}, "optimizer.nesterov"},
      {{.exp_avg_dtype = "int8"}, "optimizer.exp_avg_dtype: unknown dtype 'int8'; use float32,"},
  };
  for (const auto& [spec, message] : cases) {
    try {
      MakeOptimizer(spec, MakeSlots());
      ADD_FAILURE() << "not refused: " << message;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser);
      EXPECT_THAT(error.what(), testing::HasSubstr(message));
    }
  }
}

TEST(OptimizerTest, RefusesAGradientOfAnotherLengthAndNamesTheSlot) {
  std::vector<OptimizerSlot> slots = MakeSlots();
  auto optimizer = MakeOptimizer({}, slots);
  SetGradients(slots);
  slots[2].grad = at::ones({3});
  try {
    optimizer->Step(slots, kLr, 0, 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInternal);
    EXPECT_THAT(error.what(), testing::HasSubstr("the gradient of weight1024 is Float [3]"));
  }
}

TEST(SumOfSquaresTest, SumsInDoublePrecision) {
  const at::Tensor values = at::linspace(-1, 1, 50'001);
  const double expected = values.to(at::kDouble).pow(2).sum().item<double>();
  EXPECT_NEAR(SumOfSquares(values), expected, 1e-9 * expected);
  EXPECT_NEAR(SumOfSquares(values.to(at::kBFloat16)), expected, 1e-3 * expected);
  EXPECT_EQ(SumOfSquares(at::ones({0})), 0);
  EXPECT_EQ(SumOfSquares(at::full({3}, 1e20f)), 3 * 1e20f * static_cast<double>(1e20f));
}

}  // namespace
}  // namespace am::engine

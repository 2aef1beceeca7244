#include "worker/engine/core/parameter.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "common/error.h"

namespace am::engine {
namespace {

Parameter MakeParameter() {
  Parameter parameter;
  parameter.name = "model.norm.weight";
  parameter.shape = {2, 3};
  parameter.value = at::ones({2, 3}, at::kBFloat16);
  return parameter;
}

TEST(ParameterTest, StoresTheFirstGradientOfAStepAndAddsTheOthersInFloat32) {
  Parameter parameter = MakeParameter();
  EXPECT_EQ(parameter.numel(), 6);
  parameter.AddGrad(at::full({2, 3}, 256.0, at::kBFloat16));
  parameter.AddGrad(at::ones({2, 3}, at::kBFloat16));
  parameter.AddGrad(at::ones({2, 3}));
  EXPECT_EQ(parameter.grad.scalar_type(), at::kFloat);
  EXPECT_TRUE(parameter.grad.equal(at::full({2, 3}, 258.0)));
  parameter.ClearGrad();
  EXPECT_FALSE(parameter.grad.defined());
  parameter.AddGrad(at::ones({2, 3}));
  EXPECT_TRUE(parameter.grad.equal(at::ones({2, 3})));
}

TEST(ParameterTest, KeepsTheOnlyGradientOfAStepInItsOwnDtypeWithoutACopy) {
  Parameter parameter = MakeParameter();
  at::Tensor g = at::ones({2, 3}, at::kBFloat16);
  parameter.AddGrad(g);
  EXPECT_EQ(parameter.grad.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(parameter.grad.is_same(g));
}

TEST(ParameterTest, WritesIntoTheOwnersBufferWhenThereIsOne) {
  Parameter parameter = MakeParameter();
  at::Tensor flat = at::zeros({10});
  parameter.grad_home = flat.narrow(0, 4, 6).view({2, 3});
  bool first = false;
  parameter.GradBuffer(&first).fill_(3);
  EXPECT_TRUE(first);
  parameter.GradBuffer(&first).add_(1);
  EXPECT_FALSE(first);
  EXPECT_EQ(flat.sum().item<float>(), 24);
  parameter.ClearGrad();
  parameter.AddGrad(at::ones({2, 3}));
  EXPECT_EQ(flat.sum().item<float>(), 6);
}

TEST(ParameterTest, RefusesAGradientOfAnotherShapeAndNamesBoth) {
  Parameter parameter = MakeParameter();
  try {
    parameter.AddGrad(at::ones({3, 2}));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInternal);
    EXPECT_STREQ(error.what(), "gradient of model.norm.weight: shape [3, 2], expected [2, 3]");
  }
}

TEST(ParameterTest, AddsAGradientWhileItsValueIsShardedAway) {
  Parameter parameter = MakeParameter();
  parameter.value.reset();
  parameter.AddGrad(at::ones({2, 3}));
  EXPECT_TRUE(parameter.grad.equal(at::ones({2, 3})));
}

}  // namespace
}  // namespace am::engine

// The fused loops against the same operators in ATen: float32 to a few roundings, bfloat16 against
// the float32 result of the same bfloat16 inputs.
#include "worker/engine/core/kernels.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/error.h"
#include "worker/engine/core/kernels_aten.h"
#include "worker/engine/core/kernels_cpu.h"
#include "worker/engine/core/vector_math.h"

namespace am::engine::kernels {
namespace {

double Error(const at::Tensor& value, const at::Tensor& expected) {
  const at::Tensor a = value.to(at::kDouble), b = expected.to(at::kDouble);
  return ((a - b).abs() / b.abs().clamp_min(1)).max().item<double>();
}

at::Tensor Random(at::IntArrayRef shape, at::ScalarType dtype) {
  return at::randn(shape).to(dtype);
}
at::Tensor Wide(const at::Tensor& x) { return x.defined() ? x.to(at::kFloat, false, true) : x; }

class KernelsTest : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    at::set_num_threads(2);
    at::manual_seed(42);
  }
  void TearDown() override { at::set_num_threads(threads_); }
  at::ScalarType dtype() const { return GetParam(); }
  double tolerance() const { return dtype() == at::kFloat ? 4e-6 : 1.2e-2; }
  int threads_ = at::get_num_threads();
};

INSTANTIATE_TEST_SUITE_P(Dtypes, KernelsTest, testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& info) { return std::string(c10::toString(info.param)); });

TEST_P(KernelsTest, NormaliseRows) {
  for (int64_t rows : {1, 77}) {
    for (int64_t columns : {19, 576}) {
      const at::Tensor x = Random({rows, columns}, dtype()),
                       delta = Random({rows, columns}, dtype());
      const at::Tensor weight = Random({columns}, dtype());
      for (const at::Tensor& d : {at::Tensor(), delta}) {
        const auto [sum, out, rstd] = AddRmsNorm(x, d, weight, 1e-5);
        const at::Tensor input = d.defined() ? Wide(x + d) : Wide(x);
        const auto [sum32, out32, rstd32] = aten::AddRmsNorm(input, {}, Wide(weight), 1e-5);
        EXPECT_TRUE(sum.equal(input.to(dtype())));
        EXPECT_LT(Error(out, out32), tolerance());
        EXPECT_LT(Error(rstd, rstd32), 1e-5);
      }
    }
  }
}

TEST_P(KernelsTest, NormaliseRowsBackward) {
  for (int64_t rows : {1, 77}) {
    const int64_t columns = 83;
    const at::Tensor x = Random({rows, columns}, dtype()),
                     grad_out = Random({rows, columns}, dtype());
    const at::Tensor weight = Random({columns}, dtype()), beside = Random({rows, columns}, dtype());
    const at::Tensor rstd = std::get<2>(aten::AddRmsNorm(Wide(x), {}, Wide(weight), 1e-5));
    for (const at::Tensor& grad_sum : {at::Tensor(), beside}) {
      const auto [grad, grad_weight] =
          AddRmsNormBackward(grad_sum, grad_out, x, rstd, weight, true);
      const auto [grad32, grad_weight32] = aten::AddRmsNormBackward(
          Wide(grad_sum), Wide(grad_out), Wide(x), rstd, Wide(weight), true);
      EXPECT_EQ(grad.scalar_type(), dtype());
      EXPECT_EQ(grad_weight.scalar_type(), at::kFloat);
      EXPECT_LT(Error(grad, grad32), tolerance());
      EXPECT_LT(Error(grad_weight, grad_weight32), 4 * tolerance());  // sums over the rows
      EXPECT_FALSE(AddRmsNormBackward(grad_sum, grad_out, x, rstd, weight, false).second.defined());
    }
  }
}

TEST_P(KernelsTest, GateActivations) {
  const at::Tensor gate_up = Random({45, 2 * 131}, dtype()) * 4;
  const at::Tensor grad_out = Random({45, 131}, dtype());
  EXPECT_LT(Error(SwiGlu(gate_up), aten::SwiGlu(Wide(gate_up))), tolerance());
  EXPECT_LT(
      Error(SwiGluBackward(grad_out, gate_up), aten::SwiGluBackward(Wide(grad_out), Wide(gate_up))),
      tolerance());
}

TEST_P(KernelsTest, RotateHeadsAndBack) {
  constexpr int64_t kHeads = 3, kDim = 16, kRows = 40;
  const at::Tensor angles = at::randn({50, kDim / 2}) * 3;
  const at::Tensor cos = angles.cos(), sin = angles.sin();
  const at::Tensor positions = at::randint(50, {kRows}, at::kInt);
  at::Tensor x =
      Random({kRows, 2 * kHeads * kDim}, dtype());  // the second half is no head of these
  const at::Tensor before = Wide(x);
  at::Tensor expected = Wide(x);
  aten::RopeInPlace(expected, positions, cos, sin, kHeads, kDim, false);
  RopeInPlace(x, positions, cos, sin, kHeads, kDim, false);
  EXPECT_LT(Error(x, expected), tolerance());
  EXPECT_TRUE(Wide(x)
                  .narrow(1, kHeads * kDim, kHeads * kDim)
                  .equal(before.narrow(1, kHeads * kDim, kHeads * kDim)));
  RopeInPlace(x, positions, cos, sin, kHeads, kDim, true);
  EXPECT_LT(Error(x, before), 2 * tolerance());
}

TEST_P(KernelsTest, AttendWithinEachSequenceAndBack) {
  struct Case {
    int64_t heads, kv_heads, head_dim;
    std::vector<int64_t> starts;
  };
  const std::vector<Case> cases = {
      {9, 3, 64, {0, 60, 61, 61, 240, 273}},  // one token, no token
      {4, 4, 32, {0, 33}},
      {2, 1, 128, {0, 16, 80}},
      {3, 1, 48, {0, 1, 2, 131}},
  };
  for (const Case& c : cases) {
    const int64_t tokens = c.starts.back(), width = c.heads + 2 * c.kv_heads;
    const at::Tensor qkv = Random({tokens, width * c.head_dim}, dtype());
    const at::Tensor grad_out = Random({tokens, c.heads * c.head_dim}, dtype());
    const auto [out, lse] = VarlenAttention(qkv, c.starts, c.heads, c.kv_heads, c.head_dim);
    const auto [out32, lse32] =
        aten::VarlenAttention(Wide(qkv), c.starts, c.heads, c.kv_heads, c.head_dim);
    EXPECT_LT(Error(out, out32), tolerance());
    EXPECT_LT(Error(lse, lse32), 1e-5);
    const at::Tensor grad =
        VarlenAttentionBackward(grad_out, qkv, out, lse, c.starts, c.heads, c.kv_heads, c.head_dim);
    const at::Tensor grad32 = aten::VarlenAttentionBackward(
        Wide(grad_out), Wide(qkv), out32, lse32, c.starts, c.heads, c.kv_heads, c.head_dim);
    EXPECT_LT(Error(grad, grad32), 2 * tolerance());
  }
  EXPECT_THROW(VarlenAttention(Random({4, 48}, dtype()), {0, 5}, 1, 1, 16), am::Error);
}

TEST_P(KernelsTest, TakeTheLossAndItsGradientInPlace) {
  for (int64_t classes : {5, 4999}) {
    const at::Tensor logits = Random({21, classes}, dtype()) * 5;
    const at::Tensor targets = at::randint(classes, {21}, at::kLong);
    at::Tensor expected = Wide(logits);
    const at::Tensor loss32 = aten::CrossEntropyInPlace(expected, targets, 0.125);

    at::Tensor untouched = logits.clone();
    EXPECT_LT(Error(CrossEntropyInPlace(untouched, targets, 0), loss32), 1e-5);
    EXPECT_TRUE(untouched.equal(logits));
    at::Tensor grad = logits.clone();
    EXPECT_LT(Error(CrossEntropyInPlace(grad, targets, 0.125), loss32), 1e-5);
    EXPECT_LT((Wide(grad) - expected).abs().max().item<double>(), 0.125 * 3 * tolerance());
  }
}

TEST_P(KernelsTest, GiveAnIgnoredRowNoLossAndNoGradient) {
  at::Tensor logits = Random({2, 33}, dtype());
  const at::Tensor targets = at::arange(-1, 1, at::kLong);
  const at::Tensor loss = CrossEntropyInPlace(logits, targets, 1);
  EXPECT_EQ(loss[0].item<float>(), 0);
  EXPECT_GT(loss[1].item<float>(), 0);
  EXPECT_EQ(logits[0].abs().max().item<float>(), 0);
}

TEST_P(KernelsTest, KeepTheLossFiniteForLargeLogits) {
  at::Tensor logits = at::full({1, 100}, -3e4).to(dtype());
  logits[0][7] = 3e4;
  const at::Tensor loss = CrossEntropyInPlace(logits, at::full({1}, 8, at::kLong), 1);
  EXPECT_NEAR(loss.item<float>(), 6e4, 300);
  EXPECT_EQ(logits[0][7].item<float>(), 1);
  EXPECT_EQ(logits[0][8].item<float>(), -1);
  EXPECT_EQ(logits[0][9].item<float>(), 0);
}

TEST_P(KernelsTest, AddRowsThatShareAnId) {
  at::Tensor table = at::randn({11, 200}), expected = table.clone();
  const at::Tensor ids = at::randint(11, {300}, at::kLong);
  const at::Tensor rows = Random({300, 200}, dtype());
  AddRows(table, ids, rows);
  aten::AddRows(expected, ids, Wide(rows));
  EXPECT_LT(Error(table, expected), 1e-5);
}

TEST_P(KernelsTest, AddIntoFloat32) {
  at::Tensor sum = at::randn({300, 211}), expected = sum.clone();
  const at::Tensor source = Random({300, 211}, dtype());
  AddInto(sum, source);
  EXPECT_TRUE(sum.equal(expected.add_(Wide(source))));
  at::Tensor strided = at::zeros({211, 300}).t();
  AddInto(strided, source);
  EXPECT_TRUE(strided.equal(Wide(source)));
}

TEST_P(KernelsTest, RefuseRowsThatAreNotDense) {
  const at::Tensor weight = at::ones({4}).to(dtype());
  EXPECT_THROW(AddRmsNorm(Random({4, 4}, dtype()).t(), {}, weight, 1e-5), am::Error);
  EXPECT_THROW(SwiGluBackward(Random({3, 5}, dtype()), Random({3, 8}, dtype())), am::Error);
  at::Tensor logits = Random({3, 4}, dtype());
  EXPECT_THROW(CrossEntropyInPlace(logits, at::full({3}, 4, at::kLong), 1), am::Error);
}

TEST(VectorMathTest, ExponentialIsWithinTwoRoundingsOfTheExactOne) {
  double worst = 0;
  for (float x = -87.0f; x < 88.0f; x += 0.00173f) {
    const double exact = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(FastExp(x) - exact) / exact);
  }
  EXPECT_LT(worst, 2.4e-7);
  EXPECT_EQ(FastExp(0), 1);
  EXPECT_EQ(FastExp(-1e30f), 0);
  EXPECT_EQ(FastExp(-INFINITY), 0);
  EXPECT_TRUE(std::isfinite(FastExp(INFINITY)));
  EXPECT_LT(FastSigmoid(-200), 1e-37);
  EXPECT_EQ(FastSigmoid(200), 1);
}

}  // namespace
}  // namespace am::engine::kernels

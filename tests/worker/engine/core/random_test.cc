#include "worker/engine/core/random.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "common/error.h"
#include "worker/engine/core/philox.h"

namespace am::engine {
namespace {

// The known answers that the authors publish with their Random123 library.
TEST(PhiloxTest, GivesThePublishedKnownAnswers) {
  EXPECT_EQ(Philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, KeysDifferInEveryPart) {
  std::set<PhiloxKey> keys;
  int count = 0;
  for (uint64_t seed : {0ull, 1ull, 1ull << 40}) {
    for (int64_t step : {0, 1, 2}) {
      for (int64_t layer : {0, 1, 31}) {
        for (uint32_t site : {0u, 1u}) {
          keys.insert(ForwardKey(seed, step, layer, site));
          ++count;
        }
      }
    }
    for (const char* name : {"lm_head.weight", "model.norm.weight"}) {
      keys.insert(InitKey(seed, name));
      ++count;
    }
  }
  EXPECT_EQ(static_cast<int>(keys.size()), count);
}

TEST(RandomTest, GivesAShardWhatTheWholeTensorHasThere) {
  const PhiloxKey key = InitKey(42, "model.layers.0.mlp.down_proj.weight");
  at::Tensor normal = at::empty({5000}), uniform = at::empty({5000});
  FillNormal(normal, 0, 0.02, 0, key);
  FillUniform(uniform, -1, 1, 0, key);
  for (int64_t begin : {0, 1, 2, 3, 1023, 2501}) {
    at::Tensor shard = at::empty({1777});
    FillNormal(shard, 0, 0.02, begin, key);
    EXPECT_TRUE(shard.equal(normal.narrow(0, begin, 1777))) << begin;
    FillUniform(shard, -1, 1, begin, key);
    EXPECT_TRUE(shard.equal(uniform.narrow(0, begin, 1777))) << begin;
  }
  at::Tensor far = at::empty({4}), same = at::empty({2});
  FillUniform(far, 0, 1, int64_t{1} << 40, key);
  FillUniform(same, 0, 1, (int64_t{1} << 40) + 2, key);
  EXPECT_TRUE(same.equal(far.narrow(0, 2, 2)));
}

TEST(RandomTest, AgreesWithTheScalarGenerator) {
  const PhiloxKey key{7, 9};
  at::Tensor uniform = at::empty({4096 + 3});
  FillUniform(uniform, 0, 1, 5, key);
  for (int64_t i = 0; i < uniform.numel(); ++i) {
    const auto element = static_cast<uint32_t>(i + 5);
    const float expected = UniformFromBits(Philox4x32({element >> 2, 0, 0, 0}, key)[element & 3]);
    ASSERT_EQ(uniform[i].item<float>(), expected) << i;
  }
}

TEST(RandomTest, HasTheMeanAndVarianceOfEachDistribution) {
  constexpr int64_t n = 400'000;
  const PhiloxKey key = InitKey(1, "w");
  at::Tensor values = at::empty({n}, at::kDouble);
  const auto expect = [&](double mean, double variance) {
    const double tolerance = 5 * std::sqrt(variance / n);
    EXPECT_NEAR(values.mean().item<double>(), mean, tolerance);
    EXPECT_NEAR(values.var().item<double>() / variance, 1, 0.01);
  };
  FillNormal(values, 0.5, 2, 0, key);
  expect(0.5, 4);
  const at::Tensor z = (values - 0.5) / 2;
  EXPECT_NEAR(z.pow(4).mean().item<double>(), 3, 0.08);
  EXPECT_NEAR((z.narrow(0, 0, n - 1) * z.narrow(0, 1, n - 1)).mean().item<double>(), 0, 0.008);
  FillUniform(values, -1, 3, 0, key);
  expect(1, 16.0 / 12);
  FillXavierNormal(values, 100, 300, 0, key);
  expect(0, 2.0 / 400);
  FillXavierUniform(values, 100, 300, 0, key);
  expect(0, 2.0 / 400);
  FillKaimingUniform(values, std::sqrt(5.0), 100, 0, key);
  expect(0, 1.0 / 300);
}

at::Tensor Mask(double p, const at::Tensor& samples, const at::Tensor& positions, int64_t columns,
                int64_t first_feature, at::ScalarType dtype = at::kFloat) {
  at::Tensor mask = at::empty({samples.numel(), columns}, dtype);
  FillDropoutMask(mask, p, samples, positions, first_feature, ForwardKey(42, 3, 1, 2));
  return mask;
}

TEST(RandomTest, DropsWithTheGivenProbabilityAndScalesTheRest) {
  const at::Tensor samples = at::full({500}, 3, at::kLong), positions = at::arange(500);
  for (double p : {0.0, 0.1, 0.5}) {
    const at::Tensor mask = Mask(p, samples, positions, 1000, 0);
    EXPECT_NEAR((mask == 0).to(at::kDouble).mean().item<double>(), p, 0.003);
    EXPECT_NEAR(mask.max().item<double>(), 1 / (1 - p), 1e-6);
    EXPECT_TRUE(Mask(p, samples, positions, 1000, 0, at::kBFloat16).equal(mask.to(at::kBFloat16)));
  }
  EXPECT_THROW(Mask(1, samples, positions, 10, 0), Error);
}

TEST(RandomTest, DrawsAMaskByTokenAndFeatureAndNotByWhoHoldsThem) {
  const at::Tensor samples = at::arange(8).repeat_interleave(5),
                   positions = at::arange(5).repeat({8});
  const at::Tensor whole = Mask(0.3, samples, positions, 64, 0);
  // Other rows in another order, and a slice of the features.
  const at::Tensor order = at::arange(39, -1, -3);
  const at::Tensor part =
      Mask(0.3, samples.index_select(0, order), positions.index_select(0, order), 30, 21);
  EXPECT_TRUE(part.equal(whole.index_select(0, order).narrow(1, 21, 30)));
  EXPECT_FALSE(whole[0].equal(whole[1]));
  EXPECT_FALSE(whole[0].equal(whole[5]));
  EXPECT_FALSE(Mask(0.3, samples + (int64_t{1} << 32), positions, 64, 0).equal(whole));
}

TEST(RandomTest, DoesNotDependOnTheThreadCount) {
  const int threads = at::get_num_threads();
  at::Tensor first = at::empty({100'000}), second = at::empty({100'000});
  at::set_num_threads(1);
  FillNormal(first, 0, 1, 11, {1, 2});
  at::set_num_threads(4);
  FillNormal(second, 0, 1, 11, {1, 2});
  at::set_num_threads(threads);
  EXPECT_TRUE(first.equal(second));
}

TEST(RandomTest, FillsTensorsThatAreNotDense) {
  at::Tensor dense = at::empty({6, 4}), strided = at::zeros({4, 6}).t();
  FillUniform(dense, 0, 1, 0, {1, 2});
  FillUniform(strided, 0, 1, 0, {1, 2});
  EXPECT_TRUE(strided.equal(dense));
}

}  // namespace
}  // namespace am::engine

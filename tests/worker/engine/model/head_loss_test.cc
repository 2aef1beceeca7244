#include "worker/engine/loss/head_loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/tanh.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "worker/engine/core/random.h"

namespace am::engine {
namespace {

struct Fixture {
  Parameter head;
  at::Tensor hidden = at::empty({70, 16}, at::kFloat);
  at::Tensor labels = at::empty({70}, at::kLong);
  Fixture() {
    head.name = "lm_head.weight";
    head.shape = {40, 16};
    head.value = at::empty({40, 16}, at::kFloat);
    FillNormal(head.value, 0, 1, 0, InitKey(1, "head"));
    FillNormal(hidden, 0, 1, 0, InitKey(1, "hidden"));
    for (int64_t i = 0; i < 70; ++i) labels.data_ptr<int64_t>()[i] = i * 7 % 40;
  }
};

void ExpectAsAutograd(const LossSpec& spec) {
  Fixture f;
  const HeadLossResult ours = HeadLoss(f.head, f.hidden, f.labels, spec, 0.25);
  at::Tensor weight = f.head.value.clone().requires_grad_(true),
             hidden = f.hidden.clone().requires_grad_(true);
  at::Tensor logits = at::mm(hidden, weight.t());
  if (spec.logit_softcapping > 0)
    logits = at::tanh(logits / spec.logit_softcapping) * spec.logit_softcapping;
  const at::Tensor loss =
      -at::log_softmax(logits, -1, at::kFloat).gather(1, f.labels.unsqueeze(1)).sum();
  (loss * 0.25).backward();
  EXPECT_NEAR(ours.loss_sum, loss.item<double>(), 1e-3);
  EXPECT_LT((ours.grad_hidden - hidden.grad()).abs().max().item<float>(), 1e-5);
  EXPECT_LT((f.head.grad - weight.grad()).abs().max().item<float>(), 1e-5);
}

TEST(HeadLossTest, GivesTheLossAndGradientsOfAutogradForEveryKind) {
  for (const char* kind : {"masked_ce", "chunked_ce", "fused_linear_ce", "parallel_ce"}) {
    SCOPED_TRACE(kind);
    ExpectAsAutograd({.kind = kind});
  }
}

TEST(HeadLossTest, CapsLogitsSoftly) {
  ExpectAsAutograd({.kind = "fused_linear_ce", .logit_softcapping = 3.0});
}

TEST(HeadLossTest, ComputesNoGradientWhenNoneIsWanted) {
  Fixture f;
  const HeadLossResult result = HeadLoss(f.head, f.hidden, f.labels, {}, 0);
  EXPECT_GT(result.loss_sum, 0);
  EXPECT_FALSE(result.grad_hidden.defined());
  EXPECT_FALSE(f.head.grad.defined());
}

TEST(HeadLossTest, NamesTheLossesItKnows) {
  try {
    ChunkRows({.kind = "hinge"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    EXPECT_STREQ(error.what(),
                 "loss_fn: 'hinge' is not known; masked_ce, chunked_ce, fused_linear_ce and "
                 "parallel_ce are");
  }
}

}  // namespace
}  // namespace am::engine

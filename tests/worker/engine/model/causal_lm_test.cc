#include "worker/engine/model/causal_lm.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/worker/engine/model/tiny_model.h"
#include "worker/engine/core/random.h"
#include "worker/engine/loss/head_loss.h"

namespace am::engine {

TinyModel::TinyModel(const ModelConfig& config, const PeftSpec* peft) : model(config) {
  if (peft) AttachLora(model, *peft);
  store = std::make_unique<ParameterStore>(model, StoreOptions{.groups = {self.get(), self.get()}});
  store->Load(
      [](const Parameter& parameter, const ParameterPiece& piece, int64_t begin, int64_t end) {
        at::Tensor out = at::ones({end - begin}, at::kFloat);
        if (parameter.shape.size() == 1 && parameter.name.ends_with("norm.weight"))
          FillUniform(out, 0.5, 1.5, begin, InitKey(7, piece.name));
        else
          FillNormal(out, 0, 0.2, begin, InitKey(7, piece.name));
        return out;
      });
}

std::vector<Sample> TinySamples(const std::vector<int64_t>& lengths) {
  std::vector<Sample> samples;
  for (size_t s = 0; s < lengths.size(); ++s) {
    Sample sample;
    sample.batch_index = static_cast<int64_t>(s);
    for (int64_t i = 0; i < lengths[s]; ++i) {
      sample.input_ids.push_back((7 * i + 13 * static_cast<int64_t>(s) + 3) % 61);
      sample.labels.push_back(i % 3 == 1 ? -100 : (11 * i + static_cast<int64_t>(s)) % 61);
    }
    sample.labels.back() = 5;
    samples.push_back(sample);
  }
  return samples;
}

PackedBatch PackAll(const std::vector<Sample>& samples) {
  std::vector<const Sample*> pointers;
  for (const Sample& sample : samples) pointers.push_back(&sample);
  return Pack(pointers, -100);
}

namespace {

using Gradients = std::map<std::string, at::Tensor>;

// Loss and gradients of the model under test, the loss being the sum over labels / 10.
double Step(TinyModel& tiny, const PackedBatch& batch, Gradients* gradients) {
  tiny.store->BeginPass(true, true);
  const at::Tensor hidden =
      tiny.model.Forward(batch, {.training = true}, batch.label_rows, tiny.store.get());
  const HeadLossResult loss = HeadLoss(tiny.model.head(), hidden, batch.labels, {}, 0.1);
  hidden.backward(loss.grad_hidden);
  tiny.store->EndPass();
  tiny.store->FinishGradients();
  for (const OptimizerSlot& slot : tiny.store->slots()) (*gradients)[slot.name] = slot.grad.clone();
  tiny.store->ClearGradients();
  return loss.loss_sum;
}

// The same model, one sequence at a time, in plain operators with autograd leaves: slow and
// obvious.
class Reference {
 public:
  explicit Reference(TinyModel& tiny) : config_(tiny.model.config()) {
    for (const auto& unit : tiny.model.Units()) {
      for (const Parameter* parameter : unit) {
        for (const ParameterPiece& piece : parameter->pieces)
          weights_[piece.name] =
              parameter->value.narrow(0, piece.row_begin, piece.rows).clone().requires_grad_(true);
      }
    }
  }

  double Step(const std::vector<Sample>& samples, double lora_scale, Gradients* gradients) {
    lora_scale_ = lora_scale;
    at::Tensor sum = at::zeros({}, at::kFloat);
    for (const Sample& sample : samples) {
      const at::Tensor logits = Logits(sample.input_ids);
      const at::Tensor log_probs = at::log_softmax(logits, -1, at::kFloat);
      for (size_t i = 0; i < sample.labels.size(); ++i)
        if (sample.labels[i] >= 0) sum = sum - log_probs[static_cast<int64_t>(i)][sample.labels[i]];
    }
    (sum * 0.1).backward();
    for (auto& [name, weight] : weights_)
      if (weight.grad().defined()) (*gradients)[name] = weight.grad().flatten();
    return sum.item<double>();
  }

 private:
  at::Tensor Norm(const at::Tensor& x, const std::string& name) {
    return weights_.at(name) * (x * (x.pow(2).mean(-1, true) + config_.rms_norm_eps).rsqrt());
  }
  at::Tensor Linear(const at::Tensor& x, const std::string& module) {
    at::Tensor y = at::mm(x, weights_.at(module + ".weight").t());
    if (const auto a = weights_.find(module + ".lora_A.weight"); a != weights_.end())
      y = y + lora_scale_ *
                  at::mm(at::mm(x, a->second.t()), weights_.at(module + ".lora_B.weight").t());
    return y;
  }
  at::Tensor Rotate(const at::Tensor& x) {  // [n, heads, d]
    const int64_t half = config_.head_dim / 2;
    const at::Tensor inv =
        (at::arange(half, at::kFloat) * (-2.0 / config_.head_dim * std::log(config_.rope.theta)))
            .exp();
    const at::Tensor angle = at::outer(at::arange(x.size(0), at::kFloat), inv).unsqueeze(1);
    const at::Tensor a = x.narrow(2, 0, half), b = x.narrow(2, half, half);
    return at::cat({a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()}, 2);
  }
  at::Tensor Logits(const std::vector<int64_t>& ids) {
    const int64_t n = static_cast<int64_t>(ids.size()), d = config_.head_dim,
                  group = config_.num_heads / config_.num_kv_heads;
    at::Tensor index = at::empty({n}, at::kLong);
    std::copy(ids.begin(), ids.end(), index.data_ptr<int64_t>());
    at::Tensor x = at::embedding(weights_.at("model.embed_tokens.weight"), index);
    const at::Tensor future = at::ones({n, n}, at::kFloat).triu(1) * -1e30;
    for (int64_t layer = 0; layer < config_.num_layers; ++layer) {
      const std::string p = "model.layers." + std::to_string(layer) + ".";
      const at::Tensor h = Norm(x, p + "input_layernorm.weight");
      const at::Tensor q =
          Rotate(Linear(h, p + "self_attn.q_proj").view({n, -1, d})).transpose(0, 1);
      const at::Tensor k =
          Rotate(Linear(h, p + "self_attn.k_proj").view({n, -1, d})).transpose(0, 1);
      const at::Tensor v = Linear(h, p + "self_attn.v_proj").view({n, -1, d}).transpose(0, 1);
      std::vector<at::Tensor> heads;
      for (int64_t i = 0; i < config_.num_heads; ++i) {
        const at::Tensor scores =
            at::mm(q[i], k[i / group].t()) / std::sqrt(static_cast<double>(d)) + future;
        heads.push_back(at::mm(at::softmax(scores, -1), v[i / group]));
      }
      x = x + Linear(at::cat(heads, 1), p + "self_attn.o_proj");
      const at::Tensor h2 = Norm(x, p + "post_attention_layernorm.weight");
      x = x + Linear(at::silu(Linear(h2, p + "mlp.gate_proj")) * Linear(h2, p + "mlp.up_proj"),
                     p + "mlp.down_proj");
    }
    const auto head = weights_.find("lm_head.weight");
    return at::mm(
        Norm(x, "model.norm.weight"),
        (head != weights_.end() ? head->second : weights_.at("model.embed_tokens.weight")).t());
  }

  ModelConfig config_;
  double lora_scale_ = 0;
  std::map<std::string, at::Tensor> weights_;
};

void ExpectEqual(const Gradients& ours, const Gradients& theirs) {
  ASSERT_FALSE(ours.empty());
  for (const auto& [name, grad] : ours) {
    ASSERT_TRUE(theirs.contains(name)) << name;
    const at::Tensor& want = theirs.at(name);
    const double error = (grad - want).abs().max().item<double>(),
                 size = want.abs().max().item<double>();
    EXPECT_LE(error, 2e-5 * (size + 1e-3)) << name << " largest " << size;
  }
}

TEST(CausalLmTest, GivesTheLossAndGradientsOfPlainAutograd) {
  for (const bool tied : {false, true}) {
    ModelConfig config = TinyConfig();
    config.tie_word_embeddings = tied;
    TinyModel tiny(config);
    const std::vector<Sample> samples = TinySamples({9, 1, 17});
    Gradients ours, theirs;
    const double loss = Step(tiny, PackAll(samples), &ours);
    EXPECT_NEAR(loss, Reference(tiny).Step(samples, 0, &theirs), 1e-3);
    ExpectEqual(ours, theirs);
  }
}

TEST(CausalLmTest, TrainsAdaptersAloneWithTheGradientsOfPlainAutograd) {
  PeftSpec peft;
  peft.target_modules = {"q_proj", "v_proj", "*mlp*"};
  peft.dim = 4;
  peft.alpha = 8;
  TinyModel tiny(TinyConfig(), &peft);
  const std::vector<Sample> samples = TinySamples({8, 13});
  Gradients ours, theirs;
  const double loss = Step(tiny, PackAll(samples), &ours);
  EXPECT_NEAR(loss, Reference(tiny).Step(samples, 2.0, &theirs), 1e-3);
  ExpectEqual(ours, theirs);
  for (const auto& [name, grad] : ours) EXPECT_NE(name.find(".lora_"), std::string::npos) << name;
}

TEST(CausalLmTest, GivesTheSameGradientsWhenBlocksAreRecomputed) {
  TinyModel tiny;
  const PackedBatch batch = PackAll(TinySamples({12, 5}));
  Gradients kept, recomputed;
  const double loss = Step(tiny, batch, &kept);
  tiny.model.activation_checkpointing = true;
  EXPECT_EQ(Step(tiny, batch, &recomputed), loss);
  for (const auto& [name, grad] : kept) EXPECT_TRUE(grad.equal(recomputed.at(name))) << name;
}

TEST(CausalLmTest, GivesASequenceTheSameLossAloneAndBesideOthers) {
  TinyModel tiny;
  const std::vector<Sample> samples = TinySamples({10, 6, 3});
  double sum = 0;
  Gradients ignored;
  for (const Sample& sample : samples) sum += Step(tiny, PackAll({sample}), &ignored);
  EXPECT_NEAR(Step(tiny, PackAll(samples), &ignored), sum, 1e-4);
}

TEST(CausalLmTest, GivesAnEmptyBatchZeroGradients) {
  TinyModel tiny;
  const PackedBatch batch = PackAll({});
  tiny.store->BeginPass(true, true);
  const at::Tensor hidden =
      tiny.model.Forward(batch, {.training = true}, batch.label_rows, tiny.store.get());
  ASSERT_EQ(hidden.size(0), 0);
  hidden.backward(at::zeros(hidden.sizes(), hidden.options()));
  tiny.store->EndPass();
  tiny.store->FinishGradients();
  for (const OptimizerSlot& slot : tiny.store->slots())
    EXPECT_EQ(slot.grad.abs().max().item<float>(), 0) << slot.name;
}

TEST(CausalLmTest, GivesThePaddingTokensLookUpsNoGradient) {
  ModelConfig config = TinyConfig();
  config.padding_id = 3;  // the first token of the first sample
  TinyModel tiny(config);
  Gradients gradients;
  Step(tiny, PackAll(TinySamples({9})), &gradients);
  const at::Tensor rows = gradients.at("model.embed_tokens.weight").view({61, 32}).abs().sum(1);
  EXPECT_EQ(rows[3].item<float>(), 0);
  EXPECT_GT(rows[10].item<float>(), 0);
}

}  // namespace
}  // namespace am::engine

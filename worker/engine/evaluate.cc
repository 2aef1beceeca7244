#include "worker/engine/evaluate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "worker/engine/loss/head_loss.h"
#include "worker/engine/pack.h"

namespace am::engine {

Evaluator::Evaluator(const DatasetSpec& spec, std::unique_ptr<Dataset> dataset,
                     const LossSpec& loss, Communicator& world, int dp_rank, int dp_size,
                     int64_t batch_size, int64_t token_budget)
    : name_(spec.name),
      dataset_(std::move(dataset)),
      loss_(loss),
      world_(world),
      dp_rank_(dp_rank),
      dp_size_(dp_size),
      batch_size_(std::max<int64_t>(batch_size, 1)),
      token_budget_(token_budget) {}

void Evaluator::Prepare() {
  std::vector<Sample> samples;
  for (int64_t i = dp_rank_; i < dataset_->size(); i += dp_size_)
    samples.push_back(dataset_->Get(i));
  // The loss is a sum, so which batches share a pass does not matter.
  std::vector<int64_t> tokens;
  for (size_t begin = 0; begin < samples.size(); begin += batch_size_) {
    int64_t sum = 0;
    for (size_t i = begin; i < std::min(samples.size(), begin + batch_size_); ++i)
      sum += UsefulLength(samples[i], loss_.ignore_index);
    tokens.push_back(sum);
  }
  for (const auto& pass : MergePasses(tokens, token_budget_)) {
    std::vector<const Sample*> members;
    for (const size_t batch : pass)
      for (size_t i = batch * batch_size_;
           i < std::min<size_t>(samples.size(), (batch + 1) * batch_size_); ++i)
        members.push_back(&samples[i]);
    passes_.push_back(Pack(members, loss_.ignore_index));
  }
  at::Tensor count = at::empty({1}, at::kLong).fill_(static_cast<int64_t>(passes_.size()));
  world_.AllReduceMax(count)->Wait();
  while (static_cast<int64_t>(passes_.size()) < count.item<int64_t>())
    passes_.push_back(Pack({}, loss_.ignore_index));
}

EvaluationResult Evaluator::Run(CausalLm& model, ParameterStore& store) {
  if (passes_.empty()) Prepare();
  const at::AutoGradMode no_record(false);
  at::Tensor sums = at::empty({2}, at::kDouble).zero_();
  double* sum = sums.data_ptr<double>();
  for (const PackedBatch& pass : passes_) {
    store.BeginPass(/*training=*/false, /*last=*/false);
    const at::Tensor hidden = model.Forward(pass, {}, pass.label_rows, &store);
    sum[0] += HeadLoss(model.head(), hidden, pass.labels, loss_, 0).loss_sum;
    sum[1] += static_cast<double>(pass.labels.size(0));
    store.EndPass();
  }
  world_.AllReduceSum(sums)->Wait();
  return {sum[1] > 0 ? sum[0] / sum[1] : 0, static_cast<int64_t>(sum[1])};
}

}  // namespace am::engine

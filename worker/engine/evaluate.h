// Evaluator: the loss of a validation set, split over the dp ranks, independent of the layout.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "worker/engine/comm/communicator.h"
#include "worker/engine/data/dataset.h"
#include "worker/engine/model/causal_lm.h"
#include "worker/engine/parallel/parameter_store.h"
#include "worker/rank_io/rank_spec.h"

namespace am::engine {

struct EvaluationResult {
  double loss = 0;  // mean over labelled tokens
  int64_t num_label_tokens = 0;
};

class Evaluator {
 public:
  // Tokenised on first use and kept. `world` outlives the evaluator.
  Evaluator(const DatasetSpec& spec, std::unique_ptr<Dataset> dataset, const LossSpec& loss,
            Communicator& world, int dp_rank, int dp_size, int64_t batch_size,
            int64_t token_budget);
  const std::string& name() const { return name_; }
  EvaluationResult Run(CausalLm& model, ParameterStore& store);

 private:
  void Prepare();

  std::string name_;
  std::unique_ptr<Dataset> dataset_;
  LossSpec loss_;
  Communicator& world_;
  int dp_rank_, dp_size_;
  int64_t batch_size_, token_budget_;
  std::vector<PackedBatch> passes_;  // the same number on every rank
};

}  // namespace am::engine

// Dataset and DataLoader: which samples make which global batch, tokenised ahead of the step that
// needs them.
//
// Free of LibTorch but for the permutation. Samples are identified by their index in the data set;
// global batch t of epoch e is perm_e[t*GBS ... (t+1)*GBS) of one seeded permutation for every dp
// size, sample i of it goes to dp rank i % dp (docs/architecture.md, "One training step"). The last
// batch of an epoch may be smaller and is used, unless drop_last.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "worker/rank_io/rank_spec.h"

namespace am::text {
class Tokenizer;
}

namespace am::engine {

struct Sample {
  std::vector<int64_t> input_ids;
  std::vector<int64_t>
      labels;                 // already shifted left by one; -100 = no label. As long as input_ids.
  int64_t dataset_index = 0;  // in the data set
  int64_t batch_index = 0;    // in its global batch
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  virtual Sample Get(
      int64_t index) const = 0;  // thread-safe; throws am::Error (kUser) with file and line
};

// Throws am::Error (kUser) with file:line for missing or empty data, a broken line, invalid UTF-8
// (unless lossy_utf8). `tokenizer` may be null for kinds that need none (mock). vocab_size is the
// model's.
std::unique_ptr<Dataset> MakeDataset(const DatasetSpec& spec, const text::Tokenizer* tokenizer,
                                     const std::string& chat_template_override, int64_t vocab_size);

// torch.randperm(n, generator=torch.Generator().manual_seed(seed)), or 0..n-1.
std::vector<int64_t> EpochOrder(int64_t n, bool shuffle, uint64_t seed);

// Steps an epoch: ceil(n / global_batch_size), or floor with drop_last (at least 1 sample is needed
// either way).
int64_t StepsPerEpoch(int64_t n, int64_t global_batch_size, bool drop_last);

// What one dp rank runs in one optimizer step. Every dp rank gets the same number of micro-batches;
// some may be empty.
struct StepBatch {
  std::vector<std::vector<Sample>> micro_batches;
  int64_t epoch = 0;
  int64_t step_in_epoch = 0;  // from 0
};

struct DataLoaderOptions {
  int64_t global_batch_size = 1;
  int64_t local_batch_size = 1;
  int dp_rank = 0;
  int dp_size = 1;
  bool shuffle = true;
  bool drop_last = false;
  uint64_t seed = 42;
  int prefetch_steps = 2;
};

class DataLoader {
 public:
  DataLoader(const Dataset& dataset, const DataLoaderOptions& options);
  ~DataLoader();
  int64_t steps_per_epoch() const;
  // Positions the loader; nothing before is touched. Starts the prefetch thread.
  void Seek(int64_t epoch, int64_t step_in_epoch);
  StepBatch Next();  // crosses epoch edges by itself; rethrows what Dataset::Get threw

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace am::engine

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <set>

#include "common/error.h"
#include "worker/engine/data/batches.h"
#include "worker/engine/data/dataset.h"

namespace am::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Each sample is its own index.
class Numbers : public Dataset {
 public:
  explicit Numbers(int64_t size, int64_t broken = -1) : size_(size), broken_(broken) {}
  int64_t size() const override { return size_; }
  Sample Get(int64_t index) const override {
    ++read;
    if (index == broken_)
      throw UserError("data.jsonl:" + std::to_string(index + 1) + ": error: broken");
    return {.input_ids = {index}, .labels = {index}};
  }
  mutable std::atomic<int> read = 0;

 private:
  int64_t size_;
  int64_t broken_;
};

std::vector<int64_t> Indices(const StepBatch& batch) {
  std::vector<int64_t> out;
  for (const auto& micro : batch.micro_batches) {
    for (const Sample& sample : micro) out.push_back(sample.dataset_index);
  }
  return out;
}

TEST(EpochOrder, IsTorchsPermutation) {
  // torch.randperm(10, generator=torch.Generator().manual_seed(42)).tolist()
  EXPECT_THAT(EpochOrder(10, true, 42), ElementsAre(2, 6, 1, 8, 4, 5, 0, 9, 3, 7));
  EXPECT_THAT(EpochOrder(4, false, 42), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(EpochOrder(0, true, 1), IsEmpty());
}

TEST(StepsPerEpoch, CountsTheSmallLastBatchUnlessItIsDropped) {
  EXPECT_EQ(StepsPerEpoch(10, 4, false), 3);
  EXPECT_EQ(StepsPerEpoch(10, 4, true), 2);
  EXPECT_EQ(StepsPerEpoch(3, 8, false), 1);
  EXPECT_THROW(StepsPerEpoch(0, 8, false), Error);
  try {
    StepsPerEpoch(3, 8, true);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("3 samples make no full global batch of 8"));
  }
}

TEST(MicroBatches, CoverTheGlobalBatchOnceWhateverTheDpSize) {
  std::vector<int64_t> order(23);
  std::iota(order.begin(), order.end(), 100);
  for (const int dp_size : {1, 2, 3, 4, 8, 16}) {
    for (int64_t step = 0; step < 3; ++step) {
      std::set<int64_t> seen;
      std::set<size_t> counts;
      for (int rank = 0; rank < dp_size; ++rank) {
        const auto micro = MicroBatches(
            order,
            {.global_batch_size = 8, .local_batch_size = 2, .dp_rank = rank, .dp_size = dp_size},
            step);
        counts.insert(micro.size());
        for (const auto& refs : micro) {
          EXPECT_LE(refs.size(), 2u);
          for (const SampleRef& ref : refs) {
            EXPECT_EQ(ref.batch_index % dp_size, rank);
            EXPECT_EQ(ref.dataset_index, 100 + step * 8 + ref.batch_index);
            EXPECT_TRUE(seen.insert(ref.batch_index).second);
          }
        }
      }
      EXPECT_THAT(counts, SizeIs(1)) << "every rank runs the same number of micro-batches";
      EXPECT_EQ(seen.size(), step == 2 ? 7u : 8u);
    }
  }
}

TEST(DataLoader, WalksEpochsInTheirOwnOrder) {
  const Numbers data(5);
  DataLoader loader(data, {.global_batch_size = 2, .local_batch_size = 1, .seed = 7});
  EXPECT_EQ(loader.steps_per_epoch(), 3);
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::vector<int64_t> seen;
    for (int step = 0; step < 3; ++step) {
      const StepBatch batch = loader.Next();
      EXPECT_EQ(batch.epoch, epoch);
      EXPECT_EQ(batch.step_in_epoch, step);
      const auto indices = Indices(batch);
      seen.insert(seen.end(), indices.begin(), indices.end());
    }
    EXPECT_EQ(seen, EpochOrder(5, true, 7 + static_cast<uint64_t>(epoch)));
  }
}

TEST(DataLoader, ResumesWhereItIsTold) {
  const Numbers data(11);
  const DataLoaderOptions options{.global_batch_size = 4, .local_batch_size = 2};
  DataLoader straight(data, options);
  std::vector<std::vector<int64_t>> all;
  for (int i = 0; i < 9; ++i) all.push_back(Indices(straight.Next()));
  for (size_t at = 0; at < 9; ++at) {
    DataLoader resumed(data, options);
    resumed.Seek(static_cast<int64_t>(at) / 3, static_cast<int64_t>(at) % 3);
    EXPECT_EQ(Indices(resumed.Next()), all[at]);
  }
  straight.Seek(0, 3);  // the step behind the last one
  EXPECT_EQ(Indices(straight.Next()), all[3]);
  straight.Seek(0, 0);
  EXPECT_EQ(Indices(straight.Next()), all[0]);
}

TEST(DataLoader, UsesADataSetSmallerThanABatch) {
  const Numbers data(3);
  DataLoader rank0(data, {.global_batch_size = 16,
                          .local_batch_size = 2,
                          .dp_rank = 0,
                          .dp_size = 4,
                          .shuffle = false});
  DataLoader rank3(data, {.global_batch_size = 16,
                          .local_batch_size = 2,
                          .dp_rank = 3,
                          .dp_size = 4,
                          .shuffle = false});
  EXPECT_THAT(Indices(rank0.Next()), ElementsAre(0));
  const StepBatch empty = rank3.Next();
  ASSERT_THAT(empty.micro_batches, SizeIs(1));
  EXPECT_THAT(empty.micro_batches[0], IsEmpty());
}

TEST(DataLoader, ReadsNoFurtherThanItPrefetches) {
  const Numbers data(1000);
  {
    DataLoader loader(data, {.global_batch_size = 10, .local_batch_size = 10, .prefetch_steps = 3});
    EXPECT_EQ(data.read, 0);
    loader.Next();
  }
  EXPECT_LE(data.read, 50);
}

TEST(DataLoader, PassesOnWhatADataSetThrowsAtItsStep) {
  const Numbers data(8, /*broken=*/5);
  DataLoader loader(data, {.global_batch_size = 2, .local_batch_size = 2, .shuffle = false});
  EXPECT_THAT(Indices(loader.Next()), ElementsAre(0, 1));
  EXPECT_THAT(Indices(loader.Next()), ElementsAre(2, 3));
  for (int again = 0; again < 2; ++again) {
    try {
      loader.Next();
      FAIL();
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "data.jsonl:6: error: broken");
    }
  }
}

TEST(MockDataset, IsRandomShiftedAndRepeatable) {
  const DatasetSpec spec{.kind = "mock",
                         .limit_samples = 3,
                         .args = {{"seq_len", 64}, {"vocab_size", 50}, {"seed", 9}}};
  const auto data = MakeDataset(spec, nullptr, "", 40);
  EXPECT_EQ(data->size(), 3);
  const Sample sample = data->Get(1);
  ASSERT_THAT(sample.input_ids, SizeIs(64));
  ASSERT_THAT(sample.labels, SizeIs(64));
  for (size_t i = 0; i + 1 < 64; ++i) EXPECT_EQ(sample.labels[i], sample.input_ids[i + 1]);
  EXPECT_EQ(sample.labels.back(), -100);
  EXPECT_GT(std::set<int64_t>(sample.input_ids.begin(), sample.input_ids.end()).size(), 20u);
  EXPECT_LT(*std::max_element(sample.input_ids.begin(), sample.input_ids.end()), 40);
  EXPECT_EQ(data->Get(1).input_ids, sample.input_ids);
  EXPECT_NE(data->Get(2).input_ids, sample.input_ids);
  EXPECT_THROW(MakeDataset({.kind = "mock", .args = {{"seq_len", 0}}}, nullptr, "", 40), Error);
  EXPECT_THROW(MakeDataset({.kind = "mock", .args = {{"seq_len", "many"}}}, nullptr, "", 40),
               Error);
  EXPECT_THROW(MakeDataset({.kind = "nonsense"}, nullptr, "", 40), Error);
}

}  // namespace
}  // namespace am::engine

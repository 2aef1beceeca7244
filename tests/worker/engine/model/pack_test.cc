#include "worker/engine/pack.h"

#include <ATen/core/Tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace am::engine {
namespace {

using ::testing::ElementsAre;
using Passes = std::vector<std::vector<size_t>>;

template <typename T>
std::vector<T> Values(const at::Tensor& tensor) {
  return {tensor.data_ptr<T>(), tensor.data_ptr<T>() + tensor.numel()};
}

TEST(PackTest, MergesMicroBatchesWhileTheyStayWithinTheBudget) {
  EXPECT_EQ(MergePasses({}, 10), Passes{});
  EXPECT_EQ(MergePasses({4, 6, 1}, 10), (Passes{{0, 1}, {2}}));
  EXPECT_EQ(MergePasses({11, 2, 3}, 10), (Passes{{0}, {1, 2}})) << "one over the budget runs alone";
  EXPECT_EQ(MergePasses({0, 0}, 10), (Passes{{0, 1}}));
}

TEST(PackTest, LaysSequencesEndToEndAndLeavesOutWhatNoLabelFollows) {
  Sample first{.input_ids = {10, 11, 12, 13}, .labels = {-100, 12, 13, -100}, .batch_index = 4};
  Sample none{.input_ids = {1, 2}, .labels = {-100, -100}, .batch_index = 5};
  Sample second{.input_ids = {20, 21}, .labels = {21, 22}, .batch_index = 6};
  const PackedBatch batch = Pack({&first, &none, &second}, -100);
  EXPECT_THAT(Values<int64_t>(batch.ids), ElementsAre(10, 11, 12, 20, 21));
  EXPECT_THAT(Values<int32_t>(batch.positions), ElementsAre(0, 1, 2, 0, 1));
  EXPECT_THAT(Values<int32_t>(batch.samples), ElementsAre(4, 4, 4, 6, 6));
  EXPECT_THAT(batch.cu_seqlens, ElementsAre(0, 3, 5));
  EXPECT_THAT(Values<int64_t>(batch.label_rows), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(Values<int64_t>(batch.labels), ElementsAre(12, 13, 21, 22));
  EXPECT_EQ(batch.max_seqlen, 3);
}

TEST(PackTest, HonoursAnotherIgnoreIndex) {
  Sample sample{.input_ids = {1, 2, 3}, .labels = {7, -100, 0}};
  EXPECT_EQ(UsefulLength(sample, 0), 1);
  EXPECT_EQ(CountLabels(sample, 0), 1);
  EXPECT_THAT(Values<int64_t>(Pack({&sample}, 0).labels), ElementsAre(7));
}

TEST(PackTest, PadsNothingToOneTokenWithoutALabel) {
  const PackedBatch batch = Pack({}, -100);
  EXPECT_EQ(batch.tokens(), 1);
  EXPECT_EQ(batch.labels.numel(), 0);
}

}  // namespace
}  // namespace am::engine

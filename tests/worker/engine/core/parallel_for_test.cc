#include "worker/engine/core/parallel_for.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

namespace am::engine {
namespace {

class ParallelForTest : public testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(3); }
  void TearDown() override { at::set_num_threads(threads_); }
  int threads_ = at::get_num_threads();
};

TEST_F(ParallelForTest, CoversTheRangeOnceOnTheThreadsOfTheTeam) {
  std::vector<int> seen(1000, 0);
  std::mutex mutex;
  std::set<std::thread::id> threads;
  ParallelFor(0, 1000, 10, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ++seen[i];
    EXPECT_EQ(ParallelThreads(), 1);  // and LibTorch's own operators stay on this thread
    std::lock_guard<std::mutex> lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(seen, std::vector<int>(1000, 1));
  EXPECT_EQ(threads.size(), 3u);
}

TEST_F(ParallelForTest, UsesNoMoreThreadsThanTheGrainAllows) {
  std::atomic<int> calls{0};
  ParallelFor(5, 25, 10, [&](int64_t, int64_t) { ++calls; });
  EXPECT_EQ(calls, 2);
  calls = 0;
  ParallelFor(5, 10, 10, [&](int64_t begin, int64_t end) {
    EXPECT_EQ(begin, 5);
    EXPECT_EQ(end, 10);
    ++calls;
  });
  EXPECT_EQ(calls, 1);
  ParallelFor(5, 5, 10, [&](int64_t, int64_t) { ++calls; });
  EXPECT_EQ(calls, 1);
}

TEST_F(ParallelForTest, HandsOutEveryTaskOnce) {
  std::vector<std::atomic<int>> seen(37);
  ParallelTasks(37, [&](int64_t task) { ++seen[task]; });
  for (const auto& count : seen) EXPECT_EQ(count, 1);
}

TEST_F(ParallelForTest, RethrowsInTheCallerWhatAThreadThrew) {
  EXPECT_THROW(ParallelFor(0, 100, 1,
                           [](int64_t begin, int64_t) {
                             if (begin > 0) throw std::runtime_error("no");
                           }),
               std::runtime_error);
}

TEST_F(ParallelForTest, RunsSeriallyInsideOfItself) {
  std::atomic<int> inner{0};
  ParallelFor(0, 3, 1, [&](int64_t, int64_t) {
    ParallelFor(0, 100, 1, [&](int64_t begin, int64_t end) {
      EXPECT_EQ(end - begin, 100);
      ++inner;
    });
  });
  EXPECT_EQ(inner, 3);
}

}  // namespace
}  // namespace am::engine

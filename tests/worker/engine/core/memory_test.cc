#include "worker/engine/core/memory.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <vector>

namespace am::engine {
namespace {

long PageFaults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

TEST(MemoryTest, TakesTheTensorsOfAStepFromTheMemoryOfTheStepBefore) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer has an allocator of its own";
#endif
  KeepFreedMemory();
  const auto step = [] {
    std::vector<at::Tensor> activations;
    for (const int64_t megabytes : {3, 40, 9, 9, 35, 1, 20}) {
      activations.push_back(at::empty({megabytes << 20}, at::kChar).fill_(1));
    }
  };
  step();
  step();
  const long before = PageFaults();
  for (int i = 0; i < 50; ++i) step();
  EXPECT_LT(PageFaults() - before, 50 * 29952 / 10);  // 117 MiB are 29,952 pages
}

}  // namespace
}  // namespace am::engine

#include "worker/engine/core/memory.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

namespace am::engine {
namespace {

long PageFaults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

TEST(MemoryTest, TakesFreedTensorsAgainWithoutNewPages) {
  KeepFreedMemory();
  const auto use = [] { at::empty({64 << 20}, at::kChar).fill_(1); };
  use();
  const long before = PageFaults();
  for (int i = 0; i < 5; ++i) use();
  EXPECT_LT(PageFaults() - before, 5 * 16384 / 10);  // 64 MiB are 16,384 pages
}

}  // namespace
}  // namespace am::engine

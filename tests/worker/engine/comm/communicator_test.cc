#include "worker/engine/comm/communicator.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>

#include "common/error.h"
#include "tests/worker/engine/comm/rank_processes.h"

namespace am::engine {
namespace {

using std::chrono::steady_clock;

const at::ScalarType kCarried[] = {at::kFloat, at::kDouble, at::kHalf, at::kBFloat16, at::kLong};

// What rank r holds: r + 1, r + 2, ... small enough to be exact in every dtype.
at::Tensor Ramp(int rank, int64_t n, at::ScalarType dtype) {
  return at::arange(rank + 1, rank + 1 + n, at::kLong).to(dtype);
}

// The sum of what three ranks hold.
at::Tensor SumOfRamps(int64_t n, at::ScalarType dtype) {
  return at::arange(6, 6 + 3 * n, 3, at::kLong).to(dtype);
}

TEST(CommunicatorTest, CarriesEveryCollectiveInEveryDtypeAndOddSizes) {
  RunRanks(3, [](const RendezvousOptions& options) {
    auto groups = ProcessGroups::Join(options);
    auto world = groups->World();
    const int rank = world->rank();
    ASSERT_EQ(world->size(), 3);
    for (at::ScalarType dtype : kCarried) {
      for (int64_t n : {1, 2, 7, 37}) {
        SCOPED_TRACE(testing::Message() << dtype << " " << n);
        at::Tensor tensor = Ramp(rank, n, dtype);
        world->AllReduceSum(tensor)->Wait();
        EXPECT_TRUE(tensor.equal(SumOfRamps(n, dtype)));

        tensor = Ramp(rank, n, dtype);
        world->AllReduceMax(tensor)->Wait();
        EXPECT_TRUE(tensor.equal(Ramp(2, n, dtype)));

        at::Tensor gathered = at::empty({3 * n}, dtype);
        world->AllGather(gathered, Ramp(rank, n, dtype))->Wait();
        EXPECT_TRUE(
            gathered.equal(at::cat({Ramp(0, n, dtype), Ramp(1, n, dtype), Ramp(2, n, dtype)})));

        at::Tensor scattered = at::empty({n}, dtype);
        world->ReduceScatterSum(scattered, Ramp(rank, 3 * n, dtype))->Wait();
        const at::Tensor sum = SumOfRamps(3 * n, dtype).narrow(0, rank * n, n);
        EXPECT_TRUE(scattered.equal(sum));

        tensor = Ramp(rank, n, dtype);
        world->Broadcast(tensor, 1)->Wait();
        EXPECT_TRUE(tensor.equal(Ramp(1, n, dtype)));
      }
    }
    world->Barrier();
  });
}

TEST(CommunicatorTest, TakesTensorsOfMoreThanOneDimensionAndEmptyOnes) {
  RunRanks(2, [](const RendezvousOptions& options) {
    auto groups = ProcessGroups::Join(options);
    auto world = groups->World();
    at::Tensor out = at::empty({4, 3});
    world->AllGather(out, at::full({2, 3}, 1.0f * world->rank()))->Wait();
    EXPECT_TRUE(out.equal(at::cat({at::zeros({2, 3}), at::full({2, 3}, 1.0f)})));

    at::Tensor empty = at::empty({0});
    at::Tensor other = at::empty({0, 3});
    world->AllReduceSum(empty)->Wait();
    world->AllGather(empty, at::empty({0}))->Wait();
    world->ReduceScatterSum(other, at::empty({0, 5}))->Wait();
    world->Broadcast(empty, 1)->Wait();
    world->Barrier();
  });
}

TEST(CommunicatorTest, KeepsSeveralCollectivesInFlight) {
  RunRanks(2, [](const RendezvousOptions& options) {
    auto groups = ProcessGroups::Join(options);
    auto world = groups->World();
    std::vector<at::Tensor> tensors;
    std::vector<std::unique_ptr<Pending>> pending;
    for (int i = 0; i < 16; ++i) {
      tensors.push_back(at::full({1000 + i}, static_cast<float>(i)));
      pending.push_back(world->AllReduceSum(tensors.back()));
    }
    for (int i = 15; i >= 0; --i) {
      pending[i]->Wait();
      EXPECT_TRUE(tensors[i].equal(at::full({1000 + i}, 2.0f * i)));
    }
  });
}

TEST(CommunicatorTest, SplitsTheWorldIntoGroupsThatWorkSideBySide) {
  RunRanks(4, [](const RendezvousOptions& options) {
    auto groups = ProcessGroups::Join(options);
    auto rows = groups->Split("dp_shard", {{0, 1}, {2, 3}});
    auto columns = groups->Split("dp_replicate", {{2, 0}, {1, 3}});  // the order is the group's own
    auto alone = groups->Split("tp", {{0}, {1}, {2}, {3}});
    auto all = groups->Split("loss", {{0, 1, 2, 3}});
    const int rank = options.rank;
    EXPECT_EQ(rows->rank(), rank % 2);
    EXPECT_EQ(columns->rank(), std::vector<int>({1, 0, 0, 1})[rank]);
    EXPECT_EQ(alone->size(), 1);
    EXPECT_EQ(all->size(), 4);

    at::Tensor row = at::full({3}, static_cast<float>(rank));
    at::Tensor column = at::full({3}, static_cast<float>(rank));
    auto first = rows->AllReduceSum(row);
    auto second = columns->AllReduceSum(column);
    second->Wait();
    first->Wait();
    EXPECT_EQ(row[0].item<float>(), rank < 2 ? 1 : 5);
    EXPECT_EQ(column[0].item<float>(), rank % 2 == 0 ? 2 : 4);
    EXPECT_THROW(groups->Split("bad", {{0, 1}, {1, 2}}), Error);
    all->Barrier();
  });
}

TEST(CommunicatorTest, TellsEverySurvivorAtOnceWhenAPeerIsKilled) {
  RunRanks(3,
           [](const RendezvousOptions& options) {
             auto groups = ProcessGroups::Join(options);
             auto world = groups->World();
             const auto start = steady_clock::now();
             try {
               world->Barrier();  // the others may still be in it when rank 1 is gone
               if (options.rank == 1) raise(SIGKILL);
               for (;;) {
                 at::Tensor tensor = at::zeros({100'000});
                 world->AllReduceSum(tensor)->Wait();
               }
             } catch (const Error& error) {
               EXPECT_EQ(error.kind(), ErrorKind::kPeerLost) << error.what();
               EXPECT_THAT(error.what(), testing::HasSubstr("a peer was lost"));
             }
             EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(10));
             fflush(nullptr);
             _exit(testing::Test::HasFailure() ? 1 : 0);
           },
           {1});
}

TEST(CommunicatorTest, NamesTheRanksThatDidNotJoinInTime) {
  RunRanks(4, [](const RendezvousOptions& given) {
    if (given.rank == 1 || given.rank == 3) return;
    RendezvousOptions options = given;
    options.timeout = std::chrono::milliseconds(given.rank == 0 ? 6000 : 3000);
    try {
      ProcessGroups::Join(options);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
      EXPECT_THAT(error.what(), testing::HasSubstr("of 4 ranks, rank(s) 1, 3 did not join within"));
    }
  });
}

TEST(CommunicatorTest, SaysThatTheStoreIsMissingWhenRankZeroIs) {
  RunRanks(2, [](const RendezvousOptions& given) {
    if (given.rank == 0) return;
    RendezvousOptions options = given;
    options.timeout = std::chrono::milliseconds(1500);
    try {
      ProcessGroups::Join(options);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kPeerLost);
      EXPECT_THAT(error.what(),
                  testing::HasSubstr("rank 1 could not reach the store of rank 0 at 127.0.0.1"));
    }
  });
}

TEST(CommunicatorTest, RefusesWrongShapesBeforeTheBackendSeesThem) {
  RunRanks(2, [](const RendezvousOptions& options) {
    auto groups = ProcessGroups::Join(options);
    auto world = groups->World();
    at::Tensor three = at::zeros({3});
    at::Tensor halves = at::zeros({3}, at::kHalf);
    at::Tensor strided = at::zeros({4, 4}).t();
    at::Tensor flags = at::zeros({3}, at::kBool);
    EXPECT_THROW(world->AllGather(three, at::zeros({3})), Error);
    EXPECT_THROW(world->AllGather(halves, at::zeros({3})), Error);
    EXPECT_THROW(world->ReduceScatterSum(three, at::zeros({5})), Error);
    EXPECT_THROW(world->AllReduceSum(strided), Error);
    EXPECT_THROW(world->AllReduceSum(flags), Error);
    EXPECT_THROW(world->Broadcast(three, 2), Error);
    world->Barrier();  // and all of it left the group as it was
  });
}

TEST(CommunicatorTest, ActsAloneAsAGroupOfOne) {
  RendezvousOptions options;
  auto groups = ProcessGroups::Join(options);
  auto world = groups->World();
  EXPECT_EQ(world->size(), 1);
  at::Tensor out = at::empty({3});
  world->ReduceScatterSum(out, at::full({3}, 2.0f))->Wait();
  EXPECT_TRUE(out.equal(at::full({3}, 2.0f)));
  EXPECT_EQ(groups->Split("tp", {{0}})->rank(), 0);
  EXPECT_THROW(world->AllGather(out, at::zeros({2})), Error);
}

TEST(CommunicatorTest, RefusesABackendThatThisBuildDoesNotHave) {
  RunRanks(2, [](const RendezvousOptions& given) {
    RendezvousOptions options = given;
    options.backend = "mpi";
    try {
      ProcessGroups::Join(options);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUser);
      EXPECT_THAT(error.what(), testing::HasSubstr("'mpi' is not in this build; it has:"));
    }
  });
}

}  // namespace
}  // namespace am::engine

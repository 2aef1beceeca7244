#include "common/event_loop.h"

#include <gmock/gmock.h>
#include <sys/epoll.h>

#include <thread>
#include <vector>

#include "common/file.h"
#include "tests/fakes/fake_clock.h"

namespace am {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;

TEST(EventLoop, RunsPostedTasksInOrderFromAnyThread) {
  SystemClock clock;
  EventLoop loop(clock);
  std::vector<int> ran;
  std::thread poster([&] {
    for (int i = 0; i < 100; ++i) loop.Post([&ran, i] { ran.push_back(i); });
    loop.Stop();
  });
  loop.Run();
  poster.join();
  ASSERT_EQ(ran.size(), 100u);
  EXPECT_TRUE(std::is_sorted(ran.begin(), ran.end()));
}

TEST(EventLoop, RunsTimersInTheOrderOfTheirTimes) {
  FakeClock clock;
  EventLoop loop(clock);
  std::vector<int> ran;
  loop.RunAt(clock.Now() + seconds(2), [&] { ran.push_back(2); });
  loop.RunAt(clock.Now() + seconds(1), [&] { ran.push_back(1); });
  auto cancelled = loop.RunAt(clock.Now() + seconds(1), [&] { ran.push_back(9); });
  loop.RunAt(clock.Now() + seconds(3), [&] { loop.Stop(); });
  loop.Cancel(cancelled);
  clock.Advance(seconds(3));
  loop.Run();
  EXPECT_THAT(ran, ElementsAre(1, 2));
}

TEST(EventLoop, TellsOfDescriptorsUntilTheyAreUnwatched) {
  SystemClock clock;
  EventLoop loop(clock);
  auto pipe = MakePipe();
  ASSERT_TRUE(pipe.ok());
  std::string got;
  EventLoop::WatchId watch = loop.Watch(pipe->read.get(), EPOLLIN, [&](uint32_t) {
    char c;
    if (read(pipe->read.get(), &c, 1) != 1) {
      loop.Unwatch(watch);
      loop.Stop();
    } else {
      got += c;
    }
  });
  ASSERT_TRUE(WriteAll(pipe->write.get(), "abc").ok());
  pipe->write.reset();
  loop.Run();
  EXPECT_EQ(got, "abc");
}

TEST(EventLoop, ACallbackMayUnwatchAnotherDescriptorThatIsReady) {
  SystemClock clock;
  EventLoop loop(clock);
  auto one = MakePipe(), two = MakePipe();
  ASSERT_TRUE(WriteAll(one->write.get(), "x").ok());
  ASSERT_TRUE(WriteAll(two->write.get(), "x").ok());
  EventLoop::WatchId first = 0, second = 0;
  int calls = 0;
  auto on_ready = [&](uint32_t) {
    ++calls;
    loop.Unwatch(first);
    loop.Unwatch(second);
    loop.Stop();
  };
  first = loop.Watch(one->read.get(), EPOLLIN, on_ready);
  second = loop.Watch(two->read.get(), EPOLLIN, on_ready);
  loop.Run();
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace am

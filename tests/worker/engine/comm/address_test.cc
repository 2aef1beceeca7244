#include "worker/engine/comm/address.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/error.h"

namespace am::engine {
namespace {

TEST(AddressTest, LeavesNumericAddressesAsTheyAre) {
  EXPECT_EQ(ResolveHost("127.0.0.1", 1), "127.0.0.1");
  EXPECT_EQ(ResolveHost("192.0.2.7", 1), "192.0.2.7");
}

TEST(AddressTest, ListensOnLoopbackWhenTheStoreIsThere) {
  EXPECT_EQ(LocalAddressTowards("127.0.0.1", 29500), "127.0.0.1");
}

TEST(AddressTest, NamesAHostThatDoesNotResolve) {
  try {
    ResolveHost("no-such-host.invalid", 29500);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUser);
    EXPECT_THAT(error.what(), testing::HasSubstr("'no-such-host.invalid' does not resolve"));
  }
}

TEST(AddressTest, SaysWhichPortIsTaken) {
  const int first = ListenOn("127.0.0.1", 0);
  sockaddr_in address{};
  socklen_t length = sizeof(address);
  ASSERT_EQ(getsockname(first, reinterpret_cast<sockaddr*>(&address), &length), 0);
  const int port = ntohs(address.sin_port);
  try {
    ListenOn("127.0.0.1", port);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("127.0.0.1 port " + std::to_string(port)));
  }
  close(first);
}

}  // namespace
}  // namespace am::engine

#include "controller/server/controller_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace am::controller {
namespace {

using testing::HasSubstr;

absl::StatusOr<ControllerOptions> Read(std::vector<std::string> words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  return ReadControllerOptions(pointers);
}

TEST(ControllerOptions, HaveTheirPlacesFromTheEnvironment) {
  setenv("XDG_STATE_HOME", "/s", 1);
  setenv("XDG_RUNTIME_DIR", "/r", 1);
  EXPECT_EQ(Read({})->state_dir, "/s/amctl");
  EXPECT_EQ(Read({})->listen, "unix:/r/amctl/controller.sock");
  unsetenv("XDG_STATE_HOME");
  unsetenv("XDG_RUNTIME_DIR");
  EXPECT_EQ(Read({})->state_dir, "/var/lib/amctl");
  EXPECT_EQ(Read({})->listen, "unix:/run/amctl/controller.sock");
  EXPECT_TRUE(Read({})->local_agent);
}

TEST(ControllerOptions, TakeAValueBehindAnEqualsSignOrInTheNextWord) {
  EXPECT_EQ(Read({"--state-dir", "/x"})->state_dir, "/x");
  EXPECT_EQ(Read({"--state-dir=/x=y"})->state_dir, "/x=y");
  EXPECT_FALSE(Read({"--no-agent"})->local_agent);
}

TEST(ControllerOptions, OpenAPortOnlyToBearersOfTokensAndOnlyOnThisHost) {
  EXPECT_TRUE(Read({"--listen", "127.0.0.1:0", "--token-file", "/t"}).ok());
  EXPECT_TRUE(Read({"--listen", "[::1]:7070", "--token-file", "/t"}).ok());
  for (auto [words, said] : std::vector<std::pair<std::vector<std::string>, const char*>>{
           {{"--listen", "127.0.0.1:7070"}, "a port needs --token-file"},
           {{"--listen", "0.0.0.0:7070", "--token-file", "/t"}, "beyond this host"},
           {{"--listen", "node7:7070", "--token-file", "/t"}, "beyond this host"},
           {{"--listen", "unix:relative"}, "expected unix: and an absolute path"},
           {{"--listen", "7070"}, "expected unix:PATH or HOST:PORT"},
           {{"--state-dir", "x"}, "expected an absolute path"},
           {{"--state-dir"}, "needs a value"},
           {{"--add-token", "ada:admin"}, "--add-token needs --token-file"},
           {{"--prot"}, "unknown option --prot"}}) {
    EXPECT_THAT(Read(words).status().message(), HasSubstr(said));
  }
}

}  // namespace
}  // namespace am::controller

#include "launcher/plan/host_list.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>

namespace am::plan {
namespace {

std::string Join(const std::vector<std::string>& hosts) {
  std::string out;
  for (const std::string& host : hosts) out += (out.empty() ? "" : " ") + host;
  return out;
}

TEST(HostList, ExpandsTheWholeGrammar) {
  struct Case {
    const char* list;
    const char* hosts;
  };
  for (const Case& c : std::vector<Case>{
           {"", ""},
           {"node1", "node1"},
           {"gpu-a.example.org", "gpu-a.example.org"},
           {"a,b c\td", "a b c d"},
           {",a,,b,", "a b"},
           {"node[1-3]", "node1 node2 node3"},
           {"node[001-004,7]", "node001 node002 node003 node004 node7"},
           {"node[001-004,7],rack[0-1]-n[08-10]",
            "node001 node002 node003 node004 node7 rack0-n08 rack0-n09 rack0-n10 rack1-n08 "
            "rack1-n09 rack1-n10"},
           // Padding is that of the first number of a range.
           {"n[8-10]", "n8 n9 n10"},
           {"n[08-10]", "n08 n09 n10"},
           {"n[98-101]", "n98 n99 n100 n101"},
           {"n[098-101]", "n098 n099 n100 n101"},
           {"n[1-003]", "n1 n2 n3"},
           {"n[9,010]", "n9 n010"},
           {"n[0]", "n0"},
           {"n[5-5]", "n5"},
           {"n[00000000000000000000001]", "n00000000000000000000001"},
           // Order and repetitions are kept.
           {"n[3,1,2,1]", "n3 n1 n2 n1"},
           {"n[1-2],n[2-3]", "n1 n2 n2 n3"},
           // Of several brackets the last runs fastest, then the first.
           {"a[0-1]b[0-1]", "a0b0 a0b1 a1b0 a1b1"},
           {"a[0-1]b[0-1]c[0-1]", "a0b0c0 a0b0c1 a1b0c0 a1b0c1 a0b1c0 a0b1c1 a1b1c0 a1b1c1"},
           {"n[1-2][3-4]", "n13 n14 n23 n24"},
           {"n1[2-3]", "n12 n13"},
           {"[1-3]", "1 2 3"},
           {"n-[1-2]", "n-1 n-2"},
           // Not in scontrol's grammar.
           {"n[1-2]-ib", "n1-ib n2-ib"},
           {"n[1-2].cluster,x", "n1.cluster n2.cluster x"},
       }) {
    HostList list = ExpandHostList(c.list);
    EXPECT_FALSE(list.error) << c.list << ": " << list.error->message;
    EXPECT_EQ(Join(list.hosts), c.hosts) << c.list;
  }
}

// Fault C1: split at commas, "linux[1-2,5]" gave `linux[1-2`; plain names, dashes in names, mixed
// lists and gaps failed.
TEST(HostList, ListsThatOthersSplitAtCommasOrDashesComeOutWhole) {
  auto names = [](const char* list) { return Join(ExpandHostList(list).hosts); };
  EXPECT_EQ(names("linux[1-2,5]"), "linux1 linux2 linux5");
  EXPECT_EQ(names("linux1"), "linux1");
  EXPECT_EQ(names("g01,g02"), "g01 g02");
  EXPECT_EQ(names("my-host"), "my-host");
  EXPECT_EQ(names("my-host-[1-2]"), "my-host-1 my-host-2");
  EXPECT_EQ(names("n[1-2],login,m[1-2]"), "n1 n2 login m1 m2");
  EXPECT_EQ(names("n[001,003-004,006]"), "n001 n003 n004 n006");
  EXPECT_EQ(ExpandHostList("linux[1").error->message, "[ is never closed");
}

TEST(HostList, RefusesWithAPlaceAndACure) {
  struct Case {
    const char* list;
    const char* rendered;
  };
  for (const Case& c : std::vector<Case>{
           {"linux[1",
            "host list:6: error: [ is never closed; write linux[1]\n"
            "  linux[1\n"
            "       ^\n"},
           {"a,linux[1-2,",
            "host list:8: error: [ is never closed; write the rest of the numbers "
            "and ]\n"
            "  a,linux[1-2,\n"
            "         ^\n"},
           {"n[",
            "host list:2: error: [ is never closed; write the rest of the numbers and ]\n"
            "  n[\n"
            "   ^\n"},
           {"n1]",
            "host list:3: error: ] closes no bracket; take it away, or write [ before the "
            "numbers\n"
            "  n1]\n"
            "    ^\n"},
           {"n[1-2]]",
            "host list:7: error: ] closes no bracket; take it away, or write [ before "
            "the numbers\n"
            "  n[1-2]]\n"
            "        ^\n"},
           {"n[]",
            "host list:3: error: a number is missing; write ranges such as 1-3 or 001,007\n"
            "  n[]\n"
            "    ^\n"},
           {"n[1,]",
            "host list:5: error: a number is missing; write ranges such as 1-3 or "
            "001,007\n"
            "  n[1,]\n"
            "      ^\n"},
           {"n[1-]",
            "host list:5: error: a number is missing; write ranges such as 1-3 or "
            "001,007\n"
            "  n[1-]\n"
            "      ^\n"},
           {"n[3-1]",
            "host list:3: error: 3-1 runs backwards; write 1-3\n"
            "  n[3-1]\n"
            "    ^\n"},
           {"n[1-2-3]",
            "host list:6: error: - where a number was expected; within brackets stand "
            "numbers and ranges, such as [001-004,7]\n"
            "  n[1-2-3]\n"
            "       ^\n"},
           {"n[a-c]",
            "host list:3: error: a where a number was expected; within brackets stand "
            "numbers and ranges, such as [001-004,7]\n"
            "  n[a-c]\n"
            "    ^\n"},
           {"n[1, 2]",
            "host list:5: error: a blank where a number was expected; within brackets "
            "stand numbers and ranges, such as [001-004,7]\n"
            "  n[1, 2]\n"
            "      ^\n"},
           {"n[1,[2-3]]",
            "host list:5: error: a bracket within a bracket; write the ranges in "
            "one\n"
            "  n[1,[2-3]]\n"
            "      ^\n"},
           {"a,b;c",
            "host list:4: error: ; cannot be part of a node's name; use letters, digits, "
            "'.', '_' and '-'\n"
            "  a,b;c\n"
            "     ^\n"},
           {"a,-b",
            "host list:3: error: a name cannot begin with -, which would be read as an "
            "option\n"
            "  a,-b\n"
            "    ^\n"},
           {"n[1-9999999999999999999]",
            "host list:5: error: a number of 19 digits; use at most "
            "18\n"
            "  n[1-9999999999999999999]\n"
            "      ^\n"},
       }) {
    HostList list = ExpandHostList(c.list);
    ASSERT_TRUE(list.error) << c.list << " -> " << Join(list.hosts);
    EXPECT_TRUE(list.hosts.empty());
    EXPECT_EQ(RenderHostListError(c.list, *list.error), c.rendered);
  }
}

TEST(HostList, RefusesListsThatStandForTooMuch) {
  for (const char* list : {"n[0-999999999]", "n[0-65536]", "n[0-299][0-299]",
                           "n[0-40000],m[0-40000]", "n[0-999999999999999999,0-999999999999999999]",
                           "a[0-9]b[0-9]c[0-9]d[0-9]e[0-9]f[0-9]g[0-9]h[0-9]"}) {
    HostList refused = ExpandHostList(list);
    ASSERT_TRUE(refused.error) << list;
    EXPECT_EQ(refused.error->message, "more than 65536 nodes") << list;
  }
  EXPECT_EQ(ExpandHostList("n[0-65535]").hosts.size(), kMostHosts);
  EXPECT_TRUE(ExpandHostList(std::string(256, 'x')).error);
  EXPECT_TRUE(ExpandHostList(std::string(kMostHostListBytes + 1, ',')).error);
  // As many brackets as fit a text do not multiply.
  std::string brackets = "n";
  for (int i = 0; i < 100'000; ++i) brackets += "[0-65535]";
  EXPECT_TRUE(ExpandHostList(brackets).error);
}

TEST(HostList, CompressesAsSlurmDoes) {
  struct Case {
    const char* hosts;
    const char* list;
  };
  for (const Case& c : std::vector<Case>{
           {"", ""},
           {"n7", "n7"},
           {"x,y", "x,y"},
           {"n1,n2,n3", "n[1-3]"},
           {"n3,n1,n2", "n[3,1-2]"},
           {"n1,n1", "n[1,1]"},
           {"n1,n2,n4,m1", "n[1-2,4],m1"},
           {"n9,n10", "n[9-10]"},
           {"n09,n10,n11", "n[09-11]"},
           {"n1,n02,n003", "n[1,02,003]"},
           {"r0-n08,r0-n09,r1-n08,r1-n09", "r0-n[08-09],r1-n[08-09]"},
           {"n1-ib,n2-ib", "n1-ib,n2-ib"},
           {"n99,n100", "n[99-100]"},
           {"n1234567890123456789,n1234567890123456790",
            "n1234567890123456789,n1234567890123456790"},
       }) {
    HostList list = ExpandHostList(c.hosts);
    EXPECT_EQ(CompressHostList(list.hosts), c.list);
    EXPECT_EQ(ExpandHostList(c.list).hosts, list.hosts) << c.list;
  }
}

// The real thing: `scontrol show hostnames`, which reads a configuration and asks no daemon.
class Scontrol : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v scontrol >/dev/null 2>&1") != 0) {
      GTEST_SKIP() << "there is no scontrol here (Debian: slurm-client)";
    }
    path_ = std::filesystem::temp_directory_path() /
            ("amctl-slurm-" + std::to_string(getpid()) + ".conf");
    std::ofstream(path_) << "ClusterName=test\nSlurmctldHost=localhost\n";
  }
  void TearDown() override {
    std::error_code error;
    std::filesystem::remove(path_, error);
  }

  std::vector<std::string> Lines(const std::string& what, const std::string& list) {
    std::string command =
        "SLURM_CONF=" + path_.string() + " scontrol show " + what + " '" + list + "' 2>/dev/null";
    std::vector<std::string> lines;
    FILE* pipe = popen(command.c_str(), "r");
    if (!pipe) return lines;
    char* line = nullptr;
    size_t size = 0;
    while (getline(&line, &size, pipe) > 0) {
      lines.emplace_back(line);
      if (lines.back().back() == '\n') lines.back().pop_back();
    }
    std::free(line);
    EXPECT_EQ(pclose(pipe), 0) << command;
    return lines;
  }

 private:
  std::filesystem::path path_;
};

// Lists of every form of the grammar that scontrol has, of at most some hundred nodes.
class ListMaker {
 public:
  explicit ListMaker(unsigned seed) : random_(seed) {}

  std::string Make() {
    std::string list;
    for (int i = Below(4); i >= 0; --i) {
      if (!list.empty()) list += OneOf({",", ",", ",", ",,", " ", ", "});
      list += Item();
    }
    return list;
  }

 private:
  int Below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  std::string OneOf(std::vector<std::string> words) {
    return words[static_cast<size_t>(Below(static_cast<int>(words.size())))];
  }
  std::string Number(int value, int width) {
    std::string digits = std::to_string(value);
    if (static_cast<int>(digits.size()) >= width) return digits;
    return std::string(static_cast<size_t>(width) - digits.size(), '0') + digits;
  }
  std::string Bracket() {
    std::string out = "[";
    for (int i = Below(3); i >= 0; --i) {
      int low = Below(OneOf({"a", "b"}) == "a" ? 12 : 1100), width = Below(5);
      out += Number(low, width);
      if (Below(2)) out += "-" + Number(low + Below(12), Below(2) ? width : 0);
      if (i > 0) out += ",";
    }
    return out + "]";
  }
  std::string Item() {
    std::string name = OneOf({"n", "node", "gpu-", "rack", "r1-n", "a.b", "x_", "n0", "dgx-h100-"});
    switch (Below(5)) {
      case 0:
        return name + OneOf({"", "1", "007", "-ib"});
      case 1:
      case 2:
        return name + Bracket();
      case 3:
        return name + Bracket() + OneOf({"", "-", "-n", "x"}) + Bracket();
      default:
        return name + "[0-1]" + OneOf({"-", "b"}) + Bracket() + OneOf({"", "-c"}) + "[08-10]";
    }
  }

  std::mt19937 random_;
};

TEST_F(Scontrol, ShowsTheSameNames) {
  ListMaker maker(20260101);
  for (int i = 0; i < 400; ++i) {
    std::string list = maker.Make();
    HostList expanded = ExpandHostList(list);
    ASSERT_FALSE(expanded.error) << RenderHostListError(list, *expanded.error);
    ASSERT_EQ(Join(expanded.hosts), Join(Lines("hostnames", list))) << list;
  }
}

TEST_F(Scontrol, ReadsWhatWeCompressAndCompressesAlike) {
  ListMaker maker(7);
  for (int i = 0; i < 100; ++i) {
    std::vector<std::string> hosts = ExpandHostList(maker.Make()).hosts;
    std::string list = CompressHostList(hosts);
    ASSERT_EQ(ExpandHostList(list).hosts, hosts) << list;
    ASSERT_EQ(Lines("hostnames", list), hosts) << list;
    std::string names;
    for (const std::string& host : hosts) names += (names.empty() ? "" : ",") + host;
    ASSERT_EQ(list, Join(Lines("hostlist", names))) << names;
  }
}

}  // namespace
}  // namespace am::plan

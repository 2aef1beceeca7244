// Slurm's host lists: "node[001-004,7],rack[0-1]-n[08-10]" as the names it stands for, and back.
// For cluster files and for what Slurm says of an allocation; without a Slurm at hand.
//
//   HostList list = ExpandHostList("n[08-10],login");    // n08 n09 n10 login
//   CompressHostList(list.hosts);                        // "n[08-10],login"
//   HostList wrong = ExpandHostList("linux[1");
//   wrong.error->offset, ->message                       // 5: "[ is never closed"
//
// Names are parted by commas or blanks; empty ones are skipped. A name is made of letters, digits,
// '.', '_' and '-', and of brackets with ranges, several of them and text around each; the first
// number of a range says to how many digits all of it is padded. Order and repetitions are those of
// `scontrol show hostnames` (22.05): of several brackets the last one runs fastest, then the first,
// the second, and so on.
//
// Where it differs: a name may go on behind its last bracket ("n[1-2]-ib"), which scontrol refuses;
// what scontrol makes something of without a word is refused: an unclosed or stray bracket (it
// prints `linux]` for `linux[1`), a range without its end (`a[1-]` is a1 there), a sign.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace am::plan {

// A few characters can stand for any number of names.
inline constexpr size_t kMostHosts = 65'536;
inline constexpr size_t kMostHostLength = 255;
inline constexpr size_t kMostHostListBytes = 4 << 20;

struct HostListError {
  size_t offset = 0;  // of the byte in the text at which to draw the caret
  std::string message;
  std::string hint;  // the cure; empty where the message is enough
};

struct HostList {
  std::vector<std::string> hosts;  // empty where there is an error
  std::optional<HostListError> error;
};

HostList ExpandHostList(std::string_view text);

// The shortest list for these names in this order that `scontrol show hostlist` would print.
std::string CompressHostList(const std::vector<std::string>& hosts);

// "host list:6: error: [ is never closed; write linux[1]", the text, and a caret under it.
std::string RenderHostListError(std::string_view text, const HostListError& error);

}  // namespace am::plan

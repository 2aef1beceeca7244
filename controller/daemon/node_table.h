// NodeTable: what is known of every node. Decides which of them may be given work. Plain data and
// rules, fed with `now`; on the loop alone.
//
//   connected, heard of lately, not drained, not in quarantine, and nothing void left on it
//   ⇒ usable
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "controller/daemon/controller.h"

namespace am::controller {

class NodeTable {
 public:
  using Attempt = std::pair<std::string, int64_t>;  // job, number

  struct Node {
    NodeHello hello;
    bool known = false;  // it has said hello to this process
    bool connected = false;
    bool silent = false;
    TimePoint last_heard;
    TimePoint away_since;  // not connected, or silent
    bool told_lost = false;
    bool drained = false;
    std::string drain_reason;
    std::string quarantined;
    std::set<Attempt> voided;  // attempts that may have something left there
    std::deque<std::pair<TimePoint, std::string>> faults;  // of late: when, of which job

    bool usable() const {
      return known && connected && !silent && !drained && quarantined.empty() && voided.empty();
    }
    NodeState state(TimePoint now) const;
  };

  Node& at(const std::string& name) { return nodes_[name]; }
  Node* Find(const std::string& name);
  std::map<std::string, Node>& all() { return nodes_; }
  const std::map<std::string, Node>& all() const { return nodes_; }

  // Those that have said hello, with or without work to do now.
  std::vector<NodeView> Views() const;

  // A rank failed there, not by its user's mistake. True where the node is put in quarantine: three
  // times within ten minutes, with more than one job.
  bool CountFault(const std::string& name, const std::string& job, TimePoint now);

 private:
  std::map<std::string, Node> nodes_;
};

}  // namespace am::controller

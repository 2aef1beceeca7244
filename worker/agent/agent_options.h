// AgentOptions: what an agent is told when it is started. Plain data.
#pragma once

#include <string>
#include <vector>

#include "common/clock.h"

namespace am::agent {

struct AgentOptions {
  std::string state_dir;     // logs go to <state_dir>/jobs/<job>/attempt-<n>/rank-<r>.log
  std::string rank_program;  // am-rank
  std::vector<std::string> environment;               // of the ranks, NAME=value
  int cores = 1;                                      // of this node, to be divided among the ranks
  Duration kill_patience = std::chrono::seconds(10);  // until a process counts as unkillable

  // What the node is called and has.
  std::string node;  // empty: the host's name
  int gpus = 0;
  int cpu_slots = 0;  // 0: the ranks of one attempt divide all cores among them
  std::string nvlink_domain;
  std::string host;  // address that peers reach it by; empty: as the controller sees it
  std::string version;

  Duration heartbeat_interval = std::chrono::seconds(5);  // after so long without a word
  // How long the controller may be away while ranks go on. Nothing: they end with the stream.
  Duration reconnect_for{};
  // After that: to save and leave, before they are killed.
  Duration leave_grace = std::chrono::seconds(60);
};

}  // namespace am::agent

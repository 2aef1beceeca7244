// Schedule: which waiting jobs start where, who makes room, and why the others wait. Pure: fed with
// a picture of the queue and the nodes, and with the time.
//
// A job is placed as a gang, all or nothing. Order: priority, then fair share (the user whose
// running share is smallest), then age. Behind a head that waits, only what fits beside it or ends
// before it could start is let through (backfill). A running job is preempted only for a placement
// that will hold.
//   Verdict verdict = Schedule(view);
//   for (const Placed& placed : verdict.placed) …
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/clock.h"
#include "controller/job/placement.h"

namespace am::controller {

struct NodeView {
  std::string name;
  std::string domain;  // NVLink domain; a node whose domain is not known is one of its own
  int gpus = 0;
  int cpu_slots = 1;
  bool usable = true;  // up, not drained, not quarantined
};

struct WaitingJob {
  std::string id;
  std::string user;
  int priority = 0;
  TimePoint submitted;
  Demand demand;
  std::vector<std::string> waits_for;  // dependencies that have not succeeded yet
  std::optional<Duration> time_limit;
  std::optional<TimePoint> not_before;  // back-off of a job that was requeued
};

struct RunningJob {
  std::string id;
  std::string user;
  int priority = 0;
  TimePoint started;
  Demand demand;
  Placement placement;
  std::optional<TimePoint> ends_by;
  bool stopping = false;  // its slots come free soon
};

struct Quota {
  int max_slots = 0;  // of a user at a time; 0: no limit
  int max_jobs = 0;   // running at a time
};

struct QueueView {
  TimePoint now;
  std::vector<NodeView> nodes;
  std::vector<WaitingJob> waiting;
  std::vector<RunningJob> running;
  std::map<std::string, Quota> quotas;  // by user; "" for everybody else
  bool may_preempt = true;
};

struct Placed {
  std::string id;
  Placement placement;
};
struct Preempted {
  std::string id;
  std::string for_id;
};
struct Verdict {
  std::vector<Placed> placed;
  std::vector<Preempted> preempted;
  // Each job that goes on waiting: why, in words: "needs 4 nodes with 8 free GPUs, 3 have them: …".
  std::map<std::string, std::string> why_waiting;
};

Verdict Schedule(const QueueView& view);

// Empty where the job fits on the empty cluster, else what is missing: refused at submit. Nodes
// that are away for now count.
std::string WhyImpossible(const Demand& demand, const std::vector<NodeView>& nodes);

}  // namespace am::controller

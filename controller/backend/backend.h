// Backend: who carries out what the reconciler decides. An interface, because it is an I/O edge:
// the agents over gRPC (controller/server/agent_service.h), a fake in tests. Nothing is returned:
// what comes of an effect is an observation.
//
// `placement` says which nodes the ranks are on, and on which slots; an action with a node of its
// own is for that share alone. What is meant for a node whose agent is away is dropped: the
// reconciler says it again when the agent is back.
#pragma once

#include <cstdint>
#include <string>

#include "controller/job/job.h"
#include "controller/job/placement.h"
#include "controller/job/reconciler.h"

namespace am::controller {

class Backend {
 public:
  virtual ~Backend() = default;
  virtual void Start(const JobSpec& spec, const Placement& placement, const StartRanks& action) = 0;
  virtual void Rendezvous(const JobSpec& spec, const Placement& placement,
                          const SendRendezvous& action) = 0;
  virtual void Leave(const JobSpec& spec, const Placement& placement, const LeaveRanks& action) = 0;
  virtual void Kill(const JobSpec& spec, const Placement& placement, const KillRanks& action) = 0;
  // Everything that there was to say about the attempt is in the store: the nodes need not tell it
  // again. One that still has ranks of it forgets it when they are gone.
  virtual void Forget(const std::string& job, int64_t attempt, const Placement& placement) = 0;
};

}  // namespace am::controller

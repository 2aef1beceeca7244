// Backend: who carries out what the reconciler decides. An interface, because it is an I/O edge:
// the agents over gRPC (controller/server/agent_service.h), a fake in tests. Nothing is returned:
// what comes of an effect is an observation.
#pragma once

#include "controller/job/job.h"
#include "controller/job/reconciler.h"

namespace am::controller {

class Backend {
 public:
  virtual ~Backend() = default;
  virtual void Start(const JobSpec& spec, const StartRanks& action) = 0;
  virtual void Rendezvous(const JobSpec& spec, const SendRendezvous& action) = 0;
  virtual void Leave(const JobSpec& spec, const LeaveRanks& action) = 0;
  virtual void Kill(const JobSpec& spec, const KillRanks& action) = 0;
};

}  // namespace am::controller

// AgentService: the gRPC side of the controller that agents dial. Translates and posts; decides
// nothing.
//
// gRPC's threads read messages, turn them into Observations and post them to the controller's loop,
// in the order in which they came; the loop hands effects to the Backend below, which writes them
// to the agent's stream. One agent for now: the last that said hello.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/event_loop.h"
#include "common/unique_fd.h"
#include "controller/backend/backend.h"
#include "controller/job/observation.h"

namespace am::controller {

class AgentService final : public Backend {
 public:
  struct Callbacks {  // on the loop
    std::function<void(const Observation&)> on_observation;
    // Every event of a rank, as the rank wrote it (worker/rank_io/rank_event.h), after its
    // observation.
    std::function<void(int64_t attempt, int rank, const std::string& json)> on_rank_event;
  };

  AgentService(EventLoop& loop, Callbacks callbacks);
  ~AgentService() override;

  // Ends the streams and waits for gRPC to be done with them; what was posted of them is void after
  // it.
  void Close();

  // A connection that was accepted for it (UnixListener).
  void Adopt(UniqueFd connection);

  // Backend
  void Start(const JobSpec& spec, const Placement&, const StartRanks& action) override;
  void Rendezvous(const JobSpec& spec, const Placement&, const SendRendezvous& action) override;
  void Leave(const JobSpec& spec, const Placement&, const LeaveRanks& action) override;
  void Kill(const JobSpec& spec, const Placement&, const KillRanks& action) override;
  void Forget(const std::string& job, int64_t attempt, const Placement&) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace am::controller

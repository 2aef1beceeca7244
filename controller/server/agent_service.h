// AgentService: the gRPC side of the controller that agents dial. Translates and posts; decides
// nothing.
//
// gRPC's threads read messages and post them to the controller's loop, in the order in which they
// came; there they become Observations, by job. The loop hands effects to the Backend below, which
// writes them to the agents of the nodes where the job is placed. A node is known by its name: the
// last hello of one agent (of the same instance) counts; another agent that comes under the name of
// one that is connected is refused.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/event_loop.h"
#include "common/unique_fd.h"
#include "controller/backend/backend.h"
#include "controller/daemon/controller.h"
#include "controller/job/observation.h"

namespace am::controller {

class AgentService final : public Backend {
 public:
  struct Callbacks {  // on the loop
    // Again when the agent has dialled again: no on_closed comes between where its old stream had
    // not ended yet. What it repeats of its attempts follows.
    std::function<void(const NodeHello& hello)> on_hello;
    // On every message of a node, whatever else it means.
    std::function<void(const std::string& node)> on_heard;
    std::function<void(const std::string& node, const std::string& reason)> on_closed;
    std::function<void(const std::string& job, const Observation& seen)> on_observation;
    // Every event of a rank, as the rank wrote it (worker/rank_io/rank_event.h), after its
    // observation. Those that are state come again after a hello: known by rank and `seq`.
    std::function<void(const std::string& job, int64_t attempt, int rank, const std::string& json)>
        on_rank_event;
  };

  enum class Nodes {
    kNamed,
    kOneNameless,  // of `amctl run`: whatever its agent says, the node is called ""
  };

  AgentService(EventLoop& loop, Nodes nodes, Callbacks callbacks);
  ~AgentService() override;

  // Ends the streams and waits for gRPC to be done with them; what was posted of them is void after
  // it.
  void Close();

  // A connection that was accepted for it (UnixListener).
  void Adopt(UniqueFd connection);

  // Backend
  void Start(const JobSpec& spec, const Placement& placement, const StartRanks& action) override;
  void Rendezvous(const JobSpec& spec, const Placement& placement,
                  const SendRendezvous& action) override;
  void Leave(const JobSpec& spec, const Placement& placement, const LeaveRanks& action) override;
  void Kill(const JobSpec& spec, const Placement& placement, const KillRanks& action) override;
  void Forget(const std::string& job, int64_t attempt, const Placement& placement) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace am::controller

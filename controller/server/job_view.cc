#include "controller/server/job_view.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "common/exit_status.h"

namespace am::controller {
namespace {

namespace v1 = amctl::v1;

double Number(const nlohmann::json& fields, const char* key) {
  auto found = fields.find(key);
  return found != fields.end() && found->is_number() ? found->get<double>() : 0;
}

const char* StateOf(const ObservedRank& rank) {
  switch (rank.state) {
    case ObservedRank::State::kUnknown:
      return "waiting";
    case ObservedRank::State::kStarted:
      return rank.ready ? "ready" : "started";
    case ObservedRank::State::kExited:
      return "exited";
  }
  return "?";
}

void AddRanks(const JobReport& report, v1::Job& job) {
  const Placement& placement = report.job.status.placement;
  for (size_t index = 0; index < report.observed.ranks.size(); ++index) {
    const ObservedRank& seen = report.observed.ranks[index];
    v1::Rank* rank = job.add_ranks();
    rank->set_rank(static_cast<int>(index));
    int share = ShareOfRank(placement, static_cast<int>(index));
    if (share < static_cast<int>(placement.size())) {
      rank->set_node(placement[static_cast<size_t>(share)].node);
    }
    rank->set_state(StateOf(seen));
    rank->set_exit_code(seen.exit.code);
    rank->set_signal(seen.exit.signal);
    rank->set_log_path(seen.log_path);
    rank->set_stopped_because(seen.killed_because);
  }
}

}  // namespace

v1::Job ToMessage(const JobReport& report, bool ranks) {
  const JobSpec& spec = report.job.spec;
  const JobStatus& status = report.job.status;
  v1::Job job;
  job.set_id(spec.id);
  job.set_name(spec.name);
  job.set_user(spec.user);
  job.set_phase(Name(status.phase));
  job.set_why(report.why);
  job.set_priority(spec.priority);
  job.set_nodes(spec.demand.nodes);
  job.set_world_size(spec.world_size);
  job.set_attempt(status.attempt);
  job.set_restarts(status.restarts);
  job.set_submitted_unix_ns(spec.submitted_unix_ns);
  job.set_started_unix_ns(report.started_unix_ns);
  job.set_ended_unix_ns(report.ended_unix_ns);
  job.set_step(std::max(status.step, report.observed.step));
  job.set_total_steps(spec.total_steps);
  nlohmann::json step = nlohmann::json::parse(report.last_step_json, nullptr, false);
  if (step.is_object()) {
    job.set_loss(Number(step, "loss"));
    job.set_tokens_per_s(Number(step, "tps"));
  }
  job.set_checkpoint(status.checkpoint);
  if (IsFinished(report.job)) job.set_exit_status(ExitStatusOf(report.job, false));
  if (ranks) AddRanks(report, job);
  v1::Goodput* goodput = job.mutable_goodput();
  goodput->set_queued(Seconds(report.goodput.queued));
  goodput->set_starting(Seconds(report.goodput.starting));
  goodput->set_productive(Seconds(report.goodput.productive));
  goodput->set_checkpoint(Seconds(report.goodput.checkpoint));
  goodput->set_lost_work(Seconds(report.goodput.lost_work));
  goodput->set_recovery(Seconds(report.goodput.recovery));
  for (const NodeShare& share : status.placement) job.add_placement(share.node);
  return job;
}

v1::Node ToMessage(const NodeStatus& status, const Clock& clock) {
  v1::Node node;
  node.set_name(status.hello.name);
  switch (status.state) {
    case NodeState::kUp:
      node.set_state(!status.quarantined.empty() ? "quarantined"
                     : status.drained            ? "drained"
                                                 : "up");
      break;
    case NodeState::kSilent:
      node.set_state("silent");
      break;
    case NodeState::kLost:
      node.set_state("lost");
      break;
  }
  node.set_why(status.quarantined.empty() ? status.reason : status.quarantined);
  node.set_gpus(status.hello.gpus);
  node.set_slots(status.hello.gpus > 0 ? status.hello.gpus : status.hello.cpu_slots);
  node.set_free_slots(status.free_slots);
  node.set_nvlink_domain(status.hello.nvlink_domain);
  node.set_version(status.hello.version);
  node.set_last_heard_unix_ns(clock.UnixNanos() - (clock.Now() - status.last_heard).count());
  for (const std::string& job : status.jobs) node.add_jobs(job);
  return node;
}

v1::Event ToMessage(const StoredEvent& stored) {
  v1::Event event;
  event.set_seq(stored.seq);
  event.set_job(stored.job);
  event.set_t_unix_ns(stored.t_unix_ns);
  event.set_kind(stored.kind);
  event.set_text(stored.text);
  event.set_json(stored.json);
  return event;
}

int ExitStatusOf(const Job& job, bool interrupted) {
  switch (job.status.phase) {
    case JobPhase::kSucceeded:
      return kExitDone;
    case JobPhase::kCancelled:
      return kExitCancelled;
    case JobPhase::kPending:
      return interrupted ? kExitInterrupted : kExitSavedAndLeft;
    case JobPhase::kFailed:
      break;
    case JobPhase::kStarting:
    case JobPhase::kRunning:
    case JobPhase::kRestarting:
    case JobPhase::kStopping:
      return kExitJobFailed;
  }
  if (!job.status.failure) return kExitJobFailed;
  switch (job.status.failure->kind) {
    case FailureKind::kUser:
      return kExitUsage;
    case FailureKind::kRank:
      return kExitJobFailed;
    case FailureKind::kSignal:
    case FailureKind::kPeerLost:
    case FailureKind::kNotStarted:
    case FailureKind::kAgentLost:
      return kExitInfrastructure;
  }
  return kExitJobFailed;
}

}  // namespace am::controller

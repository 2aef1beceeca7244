// amctl wait: until a job has ended; exits as the job did.
#include <chrono>
#include <ostream>
#include <thread>

#include "common/clock.h"
#include "common/exit_status.h"
#include "launcher/cli/client.h"
#include "launcher/cli/command.h"
#include "launcher/cli/job_text.h"

namespace am::cli {
namespace {

constexpr Option kOptions[] = {kServerOption, kTokenFileOption, kJsonOption};

// A controller that was there may be started anew.
constexpr std::chrono::seconds kPatience(60);
constexpr std::chrono::milliseconds kRetryInterval(200);

int RunWait(CommandContext& context) {
  Opened opened = Open(kWaitCommand, context, {"ID"});
  if (!opened) return opened.status;
  v1::GetJobRequest ask;
  ask.set_id(opened.words.plain[0]);
  v1::Job job;
  grpc::Status status = opened.client->Call(&v1::ControllerService::Stub::GetJob, ask, job);
  if (!status.ok()) return opened.client->Fail(status, "wait", context.err);
  ask.set_id(job.id());
  if (!HasEnded(job)) context.err << job.id() << ": " << job.phase() << std::endl;

  SystemClock clock;
  v1::WatchEventsRequest watch;
  watch.set_job(job.id());
  watch.set_follow(true);
  TimePoint heard = clock.Now();
  while (!HasEnded(job)) {
    // The stream ends with the job.
    status = opened.client->Events(watch, [&](const v1::Event& event) {
      watch.set_after_seq(event.seq());
      return true;
    });
    if (status.ok()) status = opened.client->Call(&v1::ControllerService::Stub::GetJob, ask, job);
    if (status.ok()) {
      heard = clock.Now();
      continue;
    }
    bool gone = ExitStatusOf(status.error_code()) == kExitUnreachable;
    if (!gone || clock.Now() - heard > kPatience) {
      return opened.client->Fail(status, "wait", context.err);
    }
    std::this_thread::sleep_for(kRetryInterval);
  }
  if (opened.words.Has("json")) {
    PrintJson(context.out, ToJson(job));
  } else {
    context.err << job.id() << ": " << job.phase() << (job.why().empty() ? "" : ": ") << job.why()
                << '\n';
  }
  return job.exit_status();
}

}  // namespace

const Command kWaitCommand = {
    .name = "wait",
    .summary = "wait for the end of a job; exits as it did",
    .usage = "wait ID [options]",
    .about = "Waits until the job has ended, through restarts of the job and of the controller.",
    .options = kOptions,
    .notes =
        "Exit status: that of the job: 0 done, 1 failed, 2 an error in recipe, model or data, "
        "5 cancelled,\n6 infrastructure failed for good; 3 the controller cannot be reached, 4 "
        "refused.",
    .examples = "  amctl wait $(amctl submit recipe.yaml)",
    .run = RunWait,
};

}  // namespace am::cli

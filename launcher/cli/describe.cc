// amctl describe: everything about one job on a page.
#include <ostream>
#include <vector>

#include "common/clock.h"
#include "common/exit_status.h"
#include "launcher/cli/client.h"
#include "launcher/cli/command.h"
#include "launcher/cli/job_text.h"

namespace am::cli {
namespace {

constexpr Option kOptions[] = {kServerOption, kTokenFileOption, kJsonOption};

int RunDescribe(CommandContext& context) {
  Opened opened = Open(kDescribeCommand, context, {"ID"});
  if (!opened) return opened.status;
  v1::GetJobRequest request;
  request.set_id(opened.words.plain[0]);
  v1::Job job;
  grpc::Status status = opened.client->Call(&v1::ControllerService::Stub::GetJob, request, job);
  std::vector<v1::Event> events;
  if (status.ok()) {
    v1::WatchEventsRequest watch;
    watch.set_job(job.id());
    status = opened.client->Events(watch, [&](const v1::Event& event) {
      events.push_back(event);
      return true;
    });
  }
  if (!status.ok()) return opened.client->Fail(status, "describe", context.err);
  if (opened.words.Has("json")) {
    nlohmann::ordered_json json = ToJson(job);
    json["events"] = nlohmann::ordered_json::array();
    for (const v1::Event& event : events) json["events"].push_back(ToJson(event));
    PrintJson(context.out, json);
    return kExitDone;
  }
  context.out << JobPage(job, SystemClock().UnixNanos());
  if (!events.empty()) context.out << "\nEvents\n";
  for (const v1::Event& event : events) context.out << "  " << EventLine(event, false) << '\n';
  return kExitDone;
}

}  // namespace

const Command kDescribeCommand = {
    .name = "describe",
    .summary = "say all about a job: why it waits, why it failed",
    .usage = "describe ID [options]",
    .about =
        "Says why a job waits or failed, where its ranks are and how they ended, where its time "
        "went, and what happened to it.",
    .options = kOptions,
    .examples = "  amctl describe am-7h2x",
    .run = RunDescribe,
};

}  // namespace am::cli

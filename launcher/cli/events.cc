// amctl events: what has happened to a job, or to all of them.
#include <ostream>

#include "common/exit_status.h"
#include "launcher/cli/client.h"
#include "launcher/cli/command.h"
#include "launcher/cli/job_text.h"

namespace am::cli {
namespace {

constexpr Option kOptions[] = {
    {"follow", "", "go on until the job has ended", "f"},
    {"after", "SEQ", "those behind this number of --json"},
    kServerOption,
    kTokenFileOption,
    {"json", "", "a JSON object a line"},
};

int RunEvents(CommandContext& context) {
  bool all = context.args.empty() || context.args[0].starts_with("-");
  Opened opened = all ? Open(kEventsCommand, context, {}) : Open(kEventsCommand, context, {"ID"});
  if (!opened) return opened.status;
  v1::WatchEventsRequest request;
  if (!all) request.set_job(opened.words.plain[0]);
  request.set_follow(opened.words.Has("follow"));
  absl::StatusOr<std::optional<int>> after = opened.words.Count("after");
  if (!after.ok()) {
    context.err << "amctl events: " << after.status().message() << " (amctl help events)\n";
    return kExitUsage;
  }
  request.set_after_seq(after->value_or(0));
  bool json = opened.words.Has("json");
  grpc::Status status = opened.client->Events(request, [&](const v1::Event& event) {
    if (json) {
      context.out << ToJson(event).dump(-1, ' ', false,
                                        nlohmann::ordered_json::error_handler_t::replace);
    } else {
      context.out << EventLine(event, all);
    }
    return bool(context.out << std::endl);
  });
  return status.ok() ? kExitDone : opened.client->Fail(status, "events", context.err);
}

}  // namespace

const Command kEventsCommand = {
    .name = "events",
    .summary = "what has happened to a job",
    .usage = "events [ID] [options]",
    .about = "Prints what has happened to a job, or to all of them, a line each.",
    .options = kOptions,
    .examples = "  amctl events am-7h2x -f",
    .run = RunEvents,
};

}  // namespace am::cli

// amctl cancel: a job saves and leaves, or leaves at once.
#include <ostream>

#include "common/exit_status.h"
#include "launcher/cli/client.h"
#include "launcher/cli/command.h"

namespace am::cli {
namespace {

constexpr Option kOptions[] = {
    {"grace", "S", "seconds to save and leave (restart.grace_s of the recipe)"},
    {"now", "", "leave at once, without saving"},
    {"reason", "TEXT", "is kept with the job"},
    kServerOption,
    kTokenFileOption,
    kJsonOption,
};

int RunCancel(CommandContext& context) {
  Opened opened = Open(kCancelCommand, context, {"ID"});
  if (!opened) return opened.status;
  absl::StatusOr<std::optional<int>> grace = opened.words.Count("grace");
  if (!grace.ok()) {
    context.err << "amctl cancel: " << grace.status().message() << " (amctl help cancel)\n";
    return kExitUsage;
  }
  v1::CancelJobRequest request;
  request.set_id(opened.words.plain[0]);
  request.set_reason(opened.words.Value("reason").value_or(""));
  request.set_grace_ms(opened.words.Has("now") ? -1 : int64_t{1000} * grace->value_or(0));
  v1::Job job;
  grpc::Status status = opened.client->Call(&v1::ControllerService::Stub::CancelJob, request, job);
  if (!status.ok()) return opened.client->Fail(status, "cancel", context.err);
  if (opened.words.Has("json")) {
    PrintJson(context.out, ToJson(job));
  } else {
    context.out << job.id() << ": " << job.phase() << '\n';
  }
  return kExitDone;
}

}  // namespace

const Command kCancelCommand = {
    .name = "cancel",
    .summary = "end a job",
    .usage = "cancel ID [options]",
    .about =
        "Asks a job to save at its next step and leave; what has not left within its grace is "
        "killed.\nReturns at once: `amctl wait` waits for the end.",
    .options = kOptions,
    .examples =
        "  amctl cancel am-7h2x\n"
        "  amctl cancel am-7h2x --now --reason 'wrong data'",
    .run = RunCancel,
};

}  // namespace am::cli

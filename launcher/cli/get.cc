// amctl get: jobs, one job, or nodes, as a table or as JSON.
#include <ostream>

#include "common/clock.h"
#include "common/exit_status.h"
#include "launcher/cli/client.h"
#include "launcher/cli/command.h"
#include "launcher/cli/job_text.h"

namespace am::cli {
namespace {

constexpr Option kOptions[] = {
    {"all", "", "jobs that have ended, too"},
    {"user", "NAME", "of this user alone"},
    kServerOption,
    kTokenFileOption,
    kJsonOption,
};

constexpr Option kNodesOptions[] = {kServerOption, kTokenFileOption, kJsonOption};

int GetJobs(CommandContext& context, const Opened& opened) {
  v1::ListJobsRequest request;
  request.set_all(opened.words.Has("all"));
  request.set_user(opened.words.Value("user").value_or(""));
  v1::ListJobsReply reply;
  grpc::Status status = opened.client->Call(&v1::ControllerService::Stub::ListJobs, request, reply);
  if (!status.ok()) return opened.client->Fail(status, "get", context.err);
  if (opened.words.Has("json")) {
    PrintJson(context.out, ToJson(reply));
  } else {
    context.out << JobTable(reply.jobs(), SystemClock().UnixNanos());
  }
  return kExitDone;
}

int GetJob(CommandContext& context, const Opened& opened) {
  v1::GetJobRequest request;
  request.set_id(opened.words.plain[1]);
  v1::Job job;
  grpc::Status status = opened.client->Call(&v1::ControllerService::Stub::GetJob, request, job);
  if (!status.ok()) return opened.client->Fail(status, "get", context.err);
  if (opened.words.Has("json")) {
    PrintJson(context.out, ToJson(job));
  } else {
    google::protobuf::RepeatedPtrField<v1::Job> jobs;
    *jobs.Add() = job;
    context.out << JobTable(jobs, SystemClock().UnixNanos());
  }
  return kExitDone;
}

int GetNodes(CommandContext& context, const Opened& opened, std::string_view command) {
  v1::ListNodesReply reply;
  grpc::Status status =
      opened.client->Call(&v1::ControllerService::Stub::ListNodes, v1::ListNodesRequest(), reply);
  if (!status.ok()) return opened.client->Fail(status, command, context.err);
  if (opened.words.Has("json")) {
    PrintJson(context.out, ToJson(reply));
  } else {
    context.out << NodeTable(reply.nodes(), SystemClock().UnixNanos());
  }
  return kExitDone;
}

int RunGet(CommandContext& context) {
  bool one = !context.args.empty() && context.args[0] == "job";
  Opened opened = one ? Open(kGetCommand, context, {"job", "ID"})
                      : Open(kGetCommand, context, {"what to get: jobs, job ID or nodes"});
  if (!opened) return opened.status;
  const std::string& what = opened.words.plain[0];
  if (what == "job") return GetJob(context, opened);
  if (what == "jobs") return GetJobs(context, opened);
  if (what == "nodes") return GetNodes(context, opened, "get");
  context.err << "amctl get: " << what << ": expected jobs, job ID or nodes (amctl help get)\n";
  return kExitUsage;
}

int RunNodes(CommandContext& context) {
  Opened opened = Open(kNodesCommand, context, {});
  return opened ? GetNodes(context, opened, "nodes") : opened.status;
}

}  // namespace

const Command kGetCommand = {
    .name = "get",
    .summary = "list jobs or nodes of the controller",
    .usage = "get jobs | job ID | nodes [options]",
    .about = "Lists what the controller has. An ID may be the beginning of one.",
    .options = kOptions,
    .examples =
        "  amctl get jobs --all\n"
        "  amctl get job am-7h2x --json",
    .run = RunGet,
};

const Command kNodesCommand = {
    .name = "nodes",
    .summary = "list the nodes of the controller",
    .usage = "nodes [options]",
    .about = "Lists the nodes whose agents have dialled in: state, free slots, jobs.",
    .options = kNodesOptions,
    .examples = "  amctl nodes --json",
    .run = RunNodes,
};

}  // namespace am::cli

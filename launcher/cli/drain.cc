// amctl drain, undrain: whether a node takes new jobs.
#include <ostream>

#include "common/exit_status.h"
#include "launcher/cli/client.h"
#include "launcher/cli/command.h"

namespace am::cli {
namespace {

constexpr Option kDrainOptions[] = {
    {"reason", "TEXT", "is shown with the node"}, kServerOption, kTokenFileOption, kJsonOption};
constexpr Option kUndrainOptions[] = {kServerOption, kTokenFileOption, kJsonOption};

int Drain(CommandContext& context, const Command& command, bool undrain) {
  Opened opened = Open(command, context, {"NODE"});
  if (!opened) return opened.status;
  v1::DrainNodeRequest request;
  request.set_name(opened.words.plain[0]);
  request.set_undrain(undrain);
  request.set_reason(opened.words.Value("reason").value_or(""));
  v1::Node node;
  grpc::Status status = opened.client->Call(&v1::ControllerService::Stub::DrainNode, request, node);
  if (!status.ok()) return opened.client->Fail(status, command.name, context.err);
  if (opened.words.Has("json")) {
    PrintJson(context.out, ToJson(node));
  } else {
    context.out << node.name() << ": " << node.state() << '\n';
  }
  return kExitDone;
}

int RunDrain(CommandContext& context) { return Drain(context, kDrainCommand, false); }
int RunUndrain(CommandContext& context) { return Drain(context, kUndrainCommand, true); }

}  // namespace

const Command kDrainCommand = {
    .name = "drain",
    .summary = "let a node take no new jobs",
    .usage = "drain NODE [options]",
    .about = "Jobs that run there go on; no other job is placed on it until `amctl undrain`.",
    .options = kDrainOptions,
    .examples = "  amctl drain node-7 --reason 'fan to be replaced'",
    .run = RunDrain,
};

const Command kUndrainCommand = {
    .name = "undrain",
    .summary = "let a node take jobs again",
    .usage = "undrain NODE [options]",
    .about = "Takes `amctl drain` back.",
    .options = kUndrainOptions,
    .examples = "  amctl undrain node-7",
    .run = RunUndrain,
};

}  // namespace am::cli

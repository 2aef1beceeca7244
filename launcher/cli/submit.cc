// amctl submit: hands a recipe to the controller and prints the job's id.
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <ostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/exit_status.h"
#include "common/file.h"
#include "common/status_macros.h"
#include "launcher/cli/client.h"
#include "launcher/cli/command.h"
#include "launcher/cli/words.h"
#include "launcher/recipe/slurm_time.h"

namespace am::cli {
namespace {

constexpr Option kOptions[] = {
    {"nodes", "N", "on so many nodes (1)"},
    {"nproc-per-node", "N", "ranks on each (a rank for each GPU; one where there is none)",
     "gpus-per-node"},
    {"name", "NAME", "what people call it (the recipe's file name)"},
    {"priority", "P", "higher ones start first (0)"},
    {"after", "ID", "start when that job has succeeded; may be given several times"},
    {"time-limit", "TIME", "of running: minutes, H:MM:SS or D-HH:MM:SS; then it saves and ends"},
    {"token", "T", "submitting again with the same one returns the same job"},
    kServerOption,
    kTokenFileOption,
    kJsonOption,
};

std::string RawText(const recipe::Override& override) {
  return override.remove ? absl::StrCat("--", override.key, "-")
                         : absl::StrCat("--", override.key, "=", override.value);
}

absl::StatusOr<int> ReadPriority(const std::string& text) {
  char* end = nullptr;
  errno = 0;
  int64_t value = std::strtoll(text.c_str(), &end, 10);
  if (end == text.c_str() || *end != '\0' || errno != 0 || value < INT_MIN || value > INT_MAX) {
    return absl::InvalidArgumentError(absl::StrCat("--priority: expected an integer, got ", text));
  }
  return static_cast<int>(value);
}

absl::StatusOr<int64_t> ReadTimeLimit(const std::string& text) {
  std::optional<recipe::SlurmTime> time = recipe::ParseSlurmTime(text);
  if (!time) {
    std::string hint = recipe::SlurmTimeHint(text);
    return absl::InvalidArgumentError(
        absl::StrCat("--time-limit: expected minutes, H:MM:SS or D-HH:MM:SS, got ", text,
                     hint.empty() ? "" : "; ", hint));
  }
  return time->seconds.value_or(0) * 1000;
}

absl::StatusOr<v1::SubmitRequest> ReadRequest(const Words& words) {
  v1::SubmitRequest request;
  AM_ASSIGN_OR_RETURN(std::string path, TheRecipe(words));
  request.set_recipe_file(path);
  for (const recipe::Override& override : words.overrides) {
    request.add_overrides(RawText(override));
  }
  char folder[PATH_MAX];
  if (getcwd(folder, sizeof folder) != nullptr) request.set_working_directory(folder);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    std::string_view variable = *entry;
    size_t equals = variable.find('=');
    if (equals == 0 || equals == std::string_view::npos) continue;
    (*request.mutable_environment())[std::string(variable.substr(0, equals))] =
        variable.substr(equals + 1);
  }
  AM_ASSIGN_OR_RETURN(std::optional<int> nodes, words.Count("nodes"));
  AM_ASSIGN_OR_RETURN(std::optional<int> ranks, words.Count("nproc-per-node"));
  request.set_nodes(nodes.value_or(0));
  request.set_ranks_per_node(ranks.value_or(0));
  request.set_name(words.Value("name").value_or(""));
  if (auto priority = words.Value("priority")) {
    AM_ASSIGN_OR_RETURN(int value, ReadPriority(*priority));
    request.set_priority(value);
  }
  for (const std::string& id : words.Values("after")) request.add_after(id);
  if (auto limit = words.Value("time-limit")) {
    AM_ASSIGN_OR_RETURN(int64_t milliseconds, ReadTimeLimit(*limit));
    request.set_time_limit_ms(milliseconds);
  }
  request.set_client_token(words.Value("token").value_or(""));
  AM_ASSIGN_OR_RETURN(*request.mutable_recipe_yaml(), ReadFile(path));
  return request;
}

int RunSubmit(CommandContext& context) {
  Opened opened = Open(kSubmitCommand, context, {"RECIPE"});
  if (!opened) return opened.status;
  absl::StatusOr<v1::SubmitRequest> request = ReadRequest(opened.words);
  if (!request.ok()) {
    context.err << "amctl submit: " << request.status().message() << " (amctl help submit)\n";
    return kExitUsage;
  }
  v1::SubmitReply reply;
  grpc::Status status = opened.client->Call(&v1::ControllerService::Stub::Submit, *request, reply);
  if (!status.ok()) return opened.client->Fail(status, "submit", context.err);
  context.err << reply.diagnostics_text();
  if (reply.existed()) context.err << "amctl submit: this token was used before; its job is\n";
  if (opened.words.Has("json")) {
    PrintJson(context.out, ToJson(reply));
  } else {
    context.out << reply.id() << '\n';
  }
  return kExitDone;
}

}  // namespace

const Command kSubmitCommand = {
    .name = "submit",
    .summary = "hand a recipe to the controller",
    .usage = "submit RECIPE [options] [overrides]",
    .about =
        "Hands the recipe to the controller, which checks it and lays it out at once and starts it "
        "when there is room.\nPrints the job's id on the last line of standard output.",
    .options = kOptions,
    .overrides = true,
    .notes =
        R"(The environment of this command and its working directory go with the job. A recipe with an error,
and a job that could never run here, are refused and not queued.

Exit status: 0 submitted, 2 usage or recipe, 3 the controller cannot be reached, 4 refused.)",
    .examples =
        "  amctl submit recipe.yaml --nproc-per-node 2\n"
        "  id=$(amctl submit recipe.yaml --name lora --optimizer.lr 1e-4) && amctl wait $id\n"
        "  amctl submit evaluate.yaml --after $id --time-limit 1:30:00",
    .run = RunSubmit,
};

}  // namespace am::cli

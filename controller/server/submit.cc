#include "controller/server/submit.h"

#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/file.h"
#include "common/status_macros.h"
#include "controller/server/prepare_job.h"
#include "launcher/recipe/override.h"

namespace am::controller {
namespace {

namespace v1 = amctl::v1;

constexpr int kMostNodes = 1 << 20;
constexpr size_t kLongestName = 200;

absl::Status CheckRequest(const v1::SubmitRequest& request) {
  auto wrong = [](auto... parts) { return absl::InvalidArgumentError(absl::StrCat(parts...)); };
  if (request.recipe_yaml().empty()) return wrong("recipe_yaml: the recipe is empty");
  for (auto [name, count] : {std::pair("nodes", request.nodes()),
                             std::pair("ranks_per_node", request.ranks_per_node())}) {
    if (count < 0 || count > kMostNodes) {
      return wrong(name, ": expected 0 to ", kMostNodes, ", got ", count);
    }
  }
  if (request.time_limit_ms() < 0) {
    return wrong("time_limit_ms: expected at least 0, got ", request.time_limit_ms());
  }
  if (request.name().size() > kLongestName) {
    return wrong("name: expected at most ", kLongestName, " bytes, got ", request.name().size());
  }
  if (!request.working_directory().empty() && request.working_directory()[0] != '/') {
    return wrong("working_directory: expected an absolute path, got ", request.working_directory());
  }
  for (const auto& [name, value] : request.environment()) {
    if (name.empty() || absl::StrContains(name, '=') || name.find('\0') != std::string::npos ||
        value.find('\0') != std::string::npos) {
      return wrong("environment: '", name, "' cannot be the name of a variable");
    }
  }
  return absl::OkStatus();
}

// "recipes/sft.yaml" → "sft"
std::string NameOf(const v1::SubmitRequest& request) {
  if (!request.name().empty()) return request.name();
  std::string name = Basename(request.recipe_file());
  size_t dot = name.rfind('.');
  return dot == 0 || dot == std::string::npos ? name : name.substr(0, dot);
}

}  // namespace

absl::StatusOr<Submission> ReadSubmission(const v1::SubmitRequest& request, const std::string& user,
                                          const plan::Cluster& machine, int64_t now_unix_ns) {
  AM_RETURN_IF_ERROR(CheckRequest(request));
  std::vector<std::string> words(request.overrides().begin(), request.overrides().end());
  AM_ASSIGN_OR_RETURN(std::vector<recipe::Override> overrides, recipe::ParseOverrides(words));
  auto environment = [&](const std::string& name) -> std::optional<std::string> {
    auto found = request.environment().find(name);
    if (found == request.environment().end()) return std::nullopt;
    return found->second;
  };
  PrepareOptions options{.load = {.path = request.recipe_file(),
                                  .text = request.recipe_yaml(),
                                  .overrides = std::move(overrides),
                                  .environment = environment,
                                  .unset_variable = recipe::Severity::kError,
                                  .not_trainable = recipe::Severity::kError},
                         .nodes = std::max(1, request.nodes()),
                         .working_directory = request.working_directory()};
  if (options.load.path.empty()) options.load.path = "recipe";
  if (request.ranks_per_node() > 0) options.ranks_per_node = request.ranks_per_node();

  PreparedJob prepared = PrepareJob(options, machine);
  std::string said = recipe::RenderText(prepared.diagnostics);
  if (!prepared.spec) return absl::InvalidArgumentError(said);

  JobSpec& spec = *prepared.spec;
  spec.name = NameOf(request);
  spec.user = user;
  spec.priority = request.priority();
  spec.after = {request.after().begin(), request.after().end()};
  if (request.time_limit_ms() > 0) {
    spec.time_limit = std::chrono::milliseconds(request.time_limit_ms());
  }
  spec.client_token = request.client_token();
  spec.submitted_unix_ns = now_unix_ns;
  spec.restart.other_nodes = true;
  spec.recipe_yaml = request.recipe_yaml();
  spec.recipe_file = request.recipe_file();
  spec.working_directory = request.working_directory();
  spec.environment = {request.environment().begin(), request.environment().end()};
  return Submission{{.spec = std::move(spec), .client_token = request.client_token()},
                    std::move(said)};
}

}  // namespace am::controller

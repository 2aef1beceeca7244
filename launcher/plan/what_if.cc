#include "launcher/plan/what_if.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <absl/strings/str_split.h>

#include <utility>

#include "launcher/plan/text_table.h"

namespace am::plan {
namespace {

constexpr size_t kMostOutcomes = 64;
constexpr int64_t kMostNodes = 65'536;
constexpr int64_t kMostTokens = int64_t{1} << 24;

// One value of each question.
struct Setting {
  std::string what;
  std::optional<int> nodes;
  std::optional<std::string> gpu;
  std::optional<int64_t> seq;
};

std::vector<Setting> Combinations(const std::vector<WhatIf>& questions) {
  std::vector<Setting> settings = {{}};
  for (const WhatIf& question : questions) {
    std::vector<Setting> more;
    for (const Setting& setting : settings) {
      for (const std::string& value : question.values) {
        Setting next = setting;
        absl::StrAppend(&next.what, next.what.empty() ? "" : ", ");
        switch (question.what) {
          case WhatIf::What::kNodes:
            next.nodes = std::stoi(value);
            absl::StrAppend(&next.what, "nodes ", value);
            break;
          case WhatIf::What::kGpu:
            next.gpu = value;
            absl::StrAppend(&next.what, "gpu ", value);
            break;
          case WhatIf::What::kSeq:
            next.seq = std::stoll(value);
            absl::StrAppend(&next.what, "seq ", value);
            break;
        }
        more.push_back(std::move(next));
      }
    }
    settings = std::move(more);
  }
  return settings;
}

// What the table says of a plan that is refused.
std::string FirstError(const recipe::Diagnostics& diagnostics) {
  for (const recipe::Diagnostic& d : diagnostics) {
    if (d.severity == recipe::Severity::kError) {
      return absl::StrCat(d.key, d.key.empty() ? "" : ": ", d.message);
    }
  }
  return "refused";
}

}  // namespace

absl::StatusOr<WhatIf> ParseWhatIf(std::string_view text) {
  auto wrong = [&](std::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat("--what-if ", std::string(text), ": ",
                                                   std::string(what),
                                                   "; use nodes=2,4,8, gpu=dgx-h200 or seq=8192"));
  };
  size_t equals = text.find('=');
  if (equals == std::string_view::npos) return wrong("no value");
  WhatIf out;
  std::string_view name = text.substr(0, equals);
  if (name == "nodes") {
    out.what = WhatIf::What::kNodes;
  } else if (name == "gpu") {
    out.what = WhatIf::What::kGpu;
  } else if (name == "seq") {
    out.what = WhatIf::What::kSeq;
  } else {
    return wrong("nothing is known of " + std::string(name));
  }
  for (auto value : absl::StrSplit(std::string(text.substr(equals + 1)), ',')) {
    int64_t number = 0;
    int64_t most = out.what == WhatIf::What::kNodes ? kMostNodes : kMostTokens;
    if (value.empty()) return wrong("an empty value");
    if (out.what != WhatIf::What::kGpu &&
        (!absl::SimpleAtoi(value, &number) || number < 1 || number > most)) {
      return wrong(absl::StrCat(value, " is no number from 1 to ", most));
    }
    out.values.emplace_back(value);
  }
  return out;
}

absl::StatusOr<std::vector<Outcome>> Ask(const recipe::Recipe& recipe, const Cluster& cluster,
                                         const PlanOptions& options,
                                         const std::vector<WhatIf>& questions,
                                         const ClusterFinder& find) {
  std::vector<Outcome> outcomes;
  outcomes.push_back({"as it is", MakePlan(recipe, cluster, options)});
  std::vector<Setting> settings = Combinations(questions);
  if (settings.size() > kMostOutcomes) {
    return absl::InvalidArgumentError(
        absl::StrCat("--what-if: ", settings.size(), " combinations; at most ", kMostOutcomes));
  }
  int gpus = options.nodes.value_or(cluster.nodes) *
             options.ranks_per_node.value_or(std::max(1, cluster.node.gpus));
  for (Setting& setting : settings) {
    Cluster other = cluster;
    PlanOptions with = options;
    if (setting.gpu) {
      absl::StatusOr<Cluster> found = find(*setting.gpu);
      if (!found.ok()) return found.status();
      other = *std::move(found);
      int per_node = std::max(1, other.node.gpus);
      with.ranks_per_node = std::min(per_node, gpus);
      with.nodes = std::max(1, (gpus + per_node - 1) / per_node);
    }
    if (setting.nodes) with.nodes = setting.nodes;
    if (setting.seq) with.seq_length = setting.seq;
    outcomes.push_back({std::move(setting.what), MakePlan(recipe, other, with)});
  }
  return outcomes;
}

std::string ToText(const std::vector<Outcome>& outcomes) {
  TextTable table({"<what", "GPUs", "GiB", "limit", "<fits", "step", "tokens/s", "run", "GPU-hours",
                   "cost", "<"});
  std::string refused;
  for (const Outcome& outcome : outcomes) {
    if (!outcome.result.plan) {
      refused += Wrapped(
          absl::StrCat(outcome.what, ": refused: ", FirstError(outcome.result.diagnostics)));
      continue;
    }
    const Plan& plan = *outcome.result.plan;
    const Estimates& e = plan.estimates;
    bool memory = e.memory && e.workload->seq_length > 0;
    table.Row({outcome.what, std::to_string(plan.dims.world()),
               memory ? ThreeDigits(e.memory->worst.total()) : "?",
               memory && e.memory->limit > 0 ? ThreeDigits(e.memory->limit) : "?",
               !memory || e.memory->limit <= 0 ? "?"
               : e.memory->fits()              ? "yes"
                                               : "no",
               e.step_time ? Duration(e.step_time->seconds) : "?",
               e.step_time ? ThreeDigits(e.step_time->tokens_per_s) : "?",
               e.cost.days ? Duration(*e.cost.days * 86'400) : "?",
               e.cost.gpu_hours ? ThreeDigits(*e.cost.gpu_hours) : "?",
               e.cost.price ? ThreeDigits(*e.cost.price) : "?",
               e.workload && e.workload->recompute_assumed
                   ? absl::StrCat("recompute ", std::string(Name(e.workload->recompute)))
                   : ""});
  }
  return "\nWhat if\n" + (table.empty() ? "" : table.Text()) + refused;
}

nlohmann::json ToJson(const std::vector<Outcome>& outcomes) {
  using nlohmann::json;
  json out = json::array();
  auto or_null = [](const auto& value) { return value ? json(*value) : json(nullptr); };
  for (const Outcome& outcome : outcomes) {
    json row = {{"what", outcome.what}, {"error", nullptr}};
    if (!outcome.result.plan) {
      row["error"] = FirstError(outcome.result.diagnostics);
      out.push_back(std::move(row));
      continue;
    }
    const Plan& plan = *outcome.result.plan;
    const Estimates& e = plan.estimates;
    bool memory = e.memory && e.workload->seq_length > 0;
    row["world_size"] = plan.dims.world();
    row["nodes"] = plan.nodes;
    row["cluster"] = plan.cluster;
    row["seq_length"] = or_null(plan.seq_length);
    row["memory_gib"] = memory ? json(e.memory->worst.total()) : json(nullptr);
    row["fits"] = memory && e.memory->limit > 0 ? json(e.memory->fits()) : json(nullptr);
    row["predicted_step_time_s"] = e.step_time ? json(e.step_time->seconds) : json(nullptr);
    row["predicted_tokens_per_s"] = e.step_time ? json(e.step_time->tokens_per_s) : json(nullptr);
    row["days"] = or_null(e.cost.days);
    row["gpu_hours"] = or_null(e.cost.gpu_hours);
    row["cost"] = or_null(e.cost.price);
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace am::plan

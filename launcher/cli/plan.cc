#include "launcher/plan/plan.h"

#include <ostream>

#include "common/exit_status.h"
#include "common/status_macros.h"
#include "launcher/cli/check.h"
#include "launcher/cli/command.h"
#include "launcher/plan/flops.h"
#include "launcher/plan/machine.h"
#include "launcher/plan/search.h"
#include "launcher/plan/what_if.h"

namespace am::cli {

namespace {

constexpr Option kOptions[] = {
    {"cluster", "C", "local, another built-in name, or a file (local)"},
    kNodesOption,
    kGpusPerNodeOption,
    {"auto", "", "search for the fastest layout that fits; the global batch stays as it is"},
    {"what-if", "Q", "nodes=2,4,8, gpu=dgx-h200 or seq=8192: a row for each; may be repeated"},
    {"explain", "WHAT", "memory, time or layout: every term with its formula"},
    {"flops-convention", "C", "current, or recorded: as the recorded runs were printed"},
    {"json", "", "one object, for programs"},
    kStrictOption,
};

// What was asked for, beside the plan.
struct Questions {
  CheckOptions check;
  bool json = false;
  bool search = false;
  std::vector<plan::WhatIf> what_if;
  std::optional<std::string> explain;
};

absl::StatusOr<Questions> ReadQuestions(const Words& words) {
  Questions questions{
      .json = words.Has("json"), .search = words.Has("auto"), .explain = words.Value("explain")};
  AM_ASSIGN_OR_RETURN(questions.check, ReadCheckOptions(words));
  questions.check.flops_convention = words.Value("flops-convention");
  if (auto& convention = questions.check.flops_convention;
      convention && !plan::ParseFlopsConvention(*convention)) {
    return absl::InvalidArgumentError("--flops-convention " + *convention +
                                      ": use current or recorded");
  }
  if (auto& what = questions.explain;
      what && *what != "memory" && *what != "time" && *what != "layout") {
    return absl::InvalidArgumentError("--explain " + *what + ": use memory, time or layout");
  }
  for (const std::string& text : words.Values("what-if")) {
    AM_ASSIGN_OR_RETURN(plan::WhatIf what_if, plan::ParseWhatIf(text));
    questions.what_if.push_back(std::move(what_if));
  }
  return questions;
}

// Answers that can be had even where the recipe's own layout is refused.
struct Answers {
  std::optional<plan::SearchResult> search;
  std::vector<plan::Outcome> what_if;
};

absl::StatusOr<Answers> Answer(const Questions& questions, const Checked& checked,
                               const plan::Cluster& cluster) {
  Answers answers;
  if (!checked.recipe) return answers;
  plan::PlanOptions options{.nodes = questions.check.nodes,
                            .ranks_per_node = questions.check.ranks_per_node,
                            .model = checked.model,
                            .flops_convention = questions.check.flops_convention};
  if (questions.search) {
    answers.search = plan::SearchLayouts(*checked.recipe, cluster, options);
  }
  if (!questions.what_if.empty()) {
    auto find = [](const std::string& name) { return plan::FindCluster(name, plan::ProbeMachine); };
    AM_ASSIGN_OR_RETURN(answers.what_if,
                        plan::Ask(*checked.recipe, cluster, options, questions.what_if, find));
  }
  return answers;
}

void PrintJson(const Checked& checked, const Answers& answers, std::ostream& out) {
  if (checked.plan && !answers.search && answers.what_if.empty()) {
    plan::WriteJson(out, *checked.plan, checked.diagnostics);
    return;
  }
  nlohmann::json json = checked.plan
                            ? plan::ToJson(*checked.plan, checked.diagnostics)
                            : nlohmann::json{{"diagnostics", recipe::ToJson(checked.diagnostics)}};
  if (answers.search) json["auto"] = plan::ToJson(*answers.search);
  if (!answers.what_if.empty()) json["what_if"] = plan::ToJson(answers.what_if);
  out << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

void PrintText(const Checked& checked, const Questions& questions, const Answers& answers,
               std::ostream& out) {
  if (checked.plan) {
    out << (questions.explain ? plan::Explain(*checked.plan, *questions.explain)
                              : plan::ToText(*checked.plan, checked.diagnostics));
  }
  if (answers.search) out << plan::ToText(*answers.search);
  if (!answers.what_if.empty()) out << plan::ToText(answers.what_if);
}

int RunPlan(CommandContext& context) {
  auto fail = [&](absl::string_view message) {
    context.err << "amctl plan: " << message << " (amctl help plan)\n";
    return kExitUsage;
  };
  absl::StatusOr<Words> words = SplitWords(kPlanCommand, context.args);
  if (!words.ok()) return fail(words.status().message());
  absl::StatusOr<std::string> recipe = TheRecipe(*words);
  if (!recipe.ok()) return fail(recipe.status().message());
  absl::StatusOr<Questions> questions = ReadQuestions(*words);
  if (!questions.ok()) return fail(questions.status().message());
  auto cluster = plan::FindCluster(questions->check.cluster.value_or("local"), plan::ProbeMachine);
  if (!cluster.ok()) return fail(cluster.status().message());
  Checked checked = Check(*recipe, questions->check, *cluster);
  context.err << recipe::RenderText(checked.diagnostics, {.color = WantsColor(context.err)});
  absl::StatusOr<Answers> answers = Answer(*questions, checked, *cluster);
  if (!answers.ok()) return fail(answers.status().message());
  if (questions->json) {
    PrintJson(checked, *answers, context.out);
  } else {
    PrintText(checked, *questions, *answers, context.out);
  }
  return checked.plan ? kExitDone : kExitUsage;
}

}  // namespace

const Command kPlanCommand = {
    .name = "plan",
    .summary = "show how a recipe is laid out, what it takes, and why",
    .usage = "plan RECIPE [options] [overrides]",
    .about =
        "Lays a recipe out on a cluster without starting anything: layout, batch arithmetic, "
        "memory, "
        "step\ntime and cost, with the reason for each. Needs no network, no GPU and no file of "
        "the "
        "model that is\nknown.",
    .options = kOptions,
    .overrides = true,
    .examples =
        "  amctl plan recipe.yaml --cluster dgx-h100 --nodes 2\n"
        "  amctl plan recipe.yaml --cluster dgx-h100 --nodes 8 --auto\n"
        "  amctl plan recipe.yaml --cluster dgx-h100 --what-if nodes=2,4,8 --what-if "
        "seq=4096,8192\n"
        "  amctl plan recipe.yaml --cluster gb200-nvl72 --explain memory",
    .run = RunPlan,
};

}  // namespace am::cli

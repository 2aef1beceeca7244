#include "launcher/plan/search_rank.h"

#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <utility>

namespace am::plan {
namespace {

constexpr size_t kPlanned = 8;  // of the best, planned in full
constexpr size_t kMissesShown = 3;
constexpr double kTight = 0.95;  // of the memory
constexpr const char* kFastest = "the fastest that fits";

std::string Slower(const Proposal& proposal, const Proposal& best) {
  return absl::StrFormat("%.1f %% slower", 100 * (proposal.step_time_s / best.step_time_s - 1));
}

std::string DoesNotFit(double over) { return absl::StrFormat("does not fit by %.1f GiB", over); }

std::string NoteIfTight(const Proposal& best) {
  if (best.limit_gib <= 0 || best.memory_gib < kTight * best.limit_gib) return "";
  return absl::StrFormat(
      "the best fills %.0f %% of the memory, and estimates err by some per cent: try it before a "
      "long run, or take one that leaves more",
      100 * best.memory_gib / best.limit_gib);
}

// The quickest, planned in full, and the recipe's own; those that fit, the fastest first.
std::vector<Proposal> PlanTheBest(const SearchProblem& p, const std::vector<JudgedLayout>& hits,
                                  const std::optional<Proposal>& own) {
  std::vector<Proposal> planned;
  auto seen = [&](const LayoutChoice& choice) {
    return std::any_of(planned.begin(), planned.end(),
                       [&](const Proposal& other) { return other.choice == choice; });
  };
  for (const JudgedLayout& hit : hits) {
    if (planned.size() == kPlanned) break;
    if (seen(hit.choice)) continue;
    PlanResult result = MakePlan(WithChoice(p.recipe, hit.choice, p.global_batch_size, p.layers),
                                 p.cluster, p.options);
    if (!result.plan || !result.plan->estimates.step_time) continue;
    Proposal proposal = ProposalOf(*result.plan);
    if (!proposal.fits) continue;
    proposal.choice = hit.choice;
    proposal.overrides = OverridesOf(p.recipe, hit.choice, p.global_batch_size, p.layers);
    planned.push_back(std::move(proposal));
  }
  if (own && own->fits && !seen(own->choice)) planned.insert(planned.begin(), *own);
  std::stable_sort(planned.begin(), planned.end(), [](const Proposal& a, const Proposal& b) {
    return a.step_time_s < b.step_time_s;
  });
  return planned;
}

// Those that would be faster, the nearest to fitting first; else the nearest of all.
void AddMisses(const SearchProblem& p, std::vector<JudgedLayout> misses, SearchResult& result) {
  double best = result.best ? result.best->step_time_s : 0;
  std::stable_sort(misses.begin(), misses.end(), [&](const JudgedLayout& a, const JudgedLayout& b) {
    bool a_faster = best == 0 || a.time < best, b_faster = best == 0 || b.time < best;
    return a_faster != b_faster ? a_faster : a.over < b.over;
  });
  if (misses.size() > kMissesShown) misses.resize(kMissesShown);
  double tokens = static_cast<double>(p.global_batch_size * p.seq_length);
  for (const JudgedLayout& miss : misses) {
    result.others.push_back(
        {.choice = miss.choice,
         .overrides = OverridesOf(p.recipe, miss.choice, p.global_batch_size, p.layers),
         .step_time_s = miss.time,
         .tokens_per_s = tokens / miss.time,
         .memory_gib = miss.memory,
         .limit_gib = p.cluster.node.memory_limit_gib(),
         .fits = false,
         .verdict = DoesNotFit(miss.over)});
  }
}

std::string VerdictOn(const Proposal& own, const std::optional<Proposal>& best) {
  if (!own.fits) return DoesNotFit(own.memory_gib - own.limit_gib);
  return best->step_time_s < own.step_time_s ? Slower(own, *best) : kFastest;
}

}  // namespace

Proposal ProposalOf(const Plan& plan) {
  const Estimates& e = plan.estimates;
  const ParallelDims& d = plan.dims;
  return {
      .choice = {.strategy = plan.strategy,
                 .tp = d.tp,
                 .cp = d.cp,
                 .pp = d.pp,
                 .ep = d.ep,
                 .dp_replicate = d.dp_replicate,
                 .virtual_stages = plan.virtual_stages.value_or(1),
                 .local_batch_size = plan.batch.local_batch_size,
                 .micro_batch_size = plan.virtual_stages ? plan.micro_batch_size.value_or(1) : 1,
                 .recompute = e.workload->recompute},
      .step_time_s = e.step_time->seconds,
      .tokens_per_s = e.step_time->tokens_per_s,
      .memory_gib = e.memory->worst.total(),
      .limit_gib = e.memory->limit,
      .fits = e.memory->fits()};
}

void RankLayouts(const SearchProblem& problem, std::vector<JudgedLayout> hits,
                 std::vector<JudgedLayout> misses, SearchResult& result) {
  std::stable_sort(hits.begin(), hits.end(),
                   [](const JudgedLayout& a, const JudgedLayout& b) { return a.time < b.time; });
  std::vector<Proposal> planned = PlanTheBest(problem, hits, result.own);
  if (planned.empty()) {
    result.note = absl::StrCat("none of ", result.legal, " legal layouts fits");
  } else {
    result.best = planned.front();
    result.best->verdict = kFastest;
    result.note = NoteIfTight(*result.best);
  }
  for (size_t i = 1; i < planned.size(); ++i) {
    if (result.own && planned[i].choice == result.own->choice) continue;  // shown beside
    planned[i].verdict = Slower(planned[i], *result.best);
    result.others.push_back(std::move(planned[i]));
  }
  AddMisses(problem, std::move(misses), result);
  if (result.own) result.own->verdict = VerdictOn(*result.own, result.best);
}

}  // namespace am::plan

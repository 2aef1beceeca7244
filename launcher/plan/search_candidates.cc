#include "launcher/plan/search_candidates.h"

#include <algorithm>
#include <numeric>

#include "launcher/plan/arithmetic.h"

namespace am::plan {
namespace {

constexpr int kMostPipelineRanks = 16;
constexpr int kMostContextRanks = 32;
constexpr int64_t kLeastTokensOfContextRank = 2048;
constexpr int64_t kMostLocalBatch = 32;

void AddOnce(std::vector<int>& values, int value) {
  if (std::find(values.begin(), values.end(), value) == values.end()) values.push_back(value);
}

std::vector<int> TensorRanks(const SearchProblem& p) {
  std::vector<int> out = {1};
  // Mixtures of experts are cut by experts; their families have no plan for tp.
  if (p.shape->num_experts == 0) {
    for (int64_t tp : DivisorsOf(p.ranks_per_node)) {
      if (tp > 1 && tp <= 16) out.push_back(static_cast<int>(tp));
    }
  }
  AddOnce(out, p.own.tp);
  return out;
}

std::vector<int> ContextRanks(const SearchProblem& p) {
  std::vector<int> out = {1};
  for (int cp = 2; cp <= kMostContextRanks && p.seq_length / cp >= kLeastTokensOfContextRank;
       cp *= 2) {
    out.push_back(cp);
  }
  AddOnce(out, p.own.cp);
  return out;
}

std::vector<int> PipelineRanks(const SearchProblem& p) {
  std::vector<int> out = {1};
  bool tied = std::any_of(p.shape->head.begin(), p.shape->head.end(), [](const auto& weight) {
    return weight.role == model::Role::kHead && weight.copies == 0;
  });
  if (!tied && p.recipe.String("distributed.strategy") != "megatron_fsdp") {
    for (int pp = 2; pp <= kMostPipelineRanks && pp <= p.layers; pp *= 2) out.push_back(pp);
  }
  AddOnce(out, p.own.pp);
  return out;
}

std::vector<int> ExpertRanks(const SearchProblem& p, int64_t dp_cp) {
  std::vector<int> out = {1};
  if (p.shape->num_experts == 0) return out;
  for (int64_t ep : DivisorsOf(std::gcd(p.shape->num_experts, dp_cp))) {
    if (ep > 1) out.push_back(static_cast<int>(ep));
  }
  return out;
}

int64_t DataRanks(const SearchProblem& p, const LayoutChoice& choice) {
  return p.world / (int64_t{choice.tp} * choice.cp * choice.pp);
}

}  // namespace

std::vector<LayoutChoice> ShapeChoices(const SearchProblem& p) {
  std::vector<LayoutChoice> choices;
  std::string strategy = p.recipe.String("distributed.strategy");
  if (strategy == "ddp") {
    choices.push_back({.strategy = "ddp", .recompute = Recompute::kFull});
    strategy = "fsdp2";
  }
  for (int tp : TensorRanks(p)) {
    for (int cp : ContextRanks(p)) {
      for (int pp : PipelineRanks(p)) {
        int64_t others = int64_t{tp} * cp * pp;
        if (p.world % others != 0 || p.global_batch_size % (p.world / others) != 0) continue;
        for (int ep : ExpertRanks(p, p.world / others * cp)) {
          choices.push_back({.strategy = strategy,
                             .tp = tp,
                             .cp = cp,
                             .pp = pp,
                             .ep = ep,
                             .local_batch_size = pp,
                             .recompute = Recompute::kFull});
        }
      }
    }
  }
  return choices;
}

std::vector<LayoutChoice> BatchChoices(const SearchProblem& p, const LayoutChoice& shape) {
  std::vector<LayoutChoice> choices;
  int64_t dp = DataRanks(p, shape);
  int64_t unit = shape.pp;  // a pipeline takes as many micro batches as it has ranks
  int64_t most = std::max(unit, kMostLocalBatch);
  for (int64_t local = unit; local <= most && dp * local <= p.global_batch_size; local *= 2) {
    for (Recompute recompute : {Recompute::kNone, Recompute::kFull}) {
      LayoutChoice choice = shape;
      choice.local_batch_size = local;
      choice.recompute = recompute;
      choices.push_back(choice);
      if (shape.pp == 1) continue;
      for (int64_t micro = 2; micro <= 4 && local / micro >= unit; micro *= 2) {
        choice.micro_batch_size = micro;
        choices.push_back(choice);
      }
    }
  }
  return choices;
}

std::vector<LayoutChoice> StageChoices(const SearchProblem& p, const LayoutChoice& best) {
  std::vector<LayoutChoice> choices;
  if (best.pp == 1) return choices;
  for (int stages : {2, 4, 8}) {
    if (int64_t{best.pp} * stages > p.layers) break;
    choices.push_back(best);
    choices.back().virtual_stages = stages;
  }
  return choices;
}

std::vector<LayoutChoice> ReplicaChoices(const SearchProblem& p, const LayoutChoice& best) {
  std::vector<LayoutChoice> choices;
  if (best.strategy != "fsdp2") return choices;
  int64_t dp = DataRanks(p, best);
  int64_t domain = int64_t{p.cluster.domain_nodes()} * p.ranks_per_node;
  for (int64_t replicate : DivisorsOf(dp)) {
    if (replicate == 1 || replicate == dp) continue;
    // Shards within a domain, or within eight.
    int64_t shard_ranks = dp / replicate * best.cp * best.tp;
    if (shard_ranks != domain && shard_ranks != 8 * domain) continue;
    choices.push_back(best);
    choices.back().dp_replicate = static_cast<int>(replicate);
  }
  return choices;
}

}  // namespace am::plan

#include "launcher/plan/search.h"

#include <algorithm>
#include <utility>

#include "launcher/plan/rules.h"
#include "launcher/plan/search_candidates.h"
#include "launcher/plan/search_judge.h"
#include "launcher/plan/search_rank.h"

namespace am::plan {
namespace {

constexpr size_t kExpanded = 48;       // shapes of which all else is tried
constexpr double kWorthExpanding = 2;  // of the quickest shape's time

class LayoutSearch {
 public:
  LayoutSearch(const recipe::Recipe& recipe, const Cluster& cluster, const PlanOptions& options)
      : problem_{.recipe = recipe, .cluster = cluster, .options = options} {}

  SearchResult Run() {
    if (!Prepare()) return std::move(result_);
    LayoutJudge judge(problem_);
    std::vector<JudgedLayout> shapes;
    for (const LayoutChoice& choice : ShapeChoices(problem_)) {
      if (auto judged = Try(judge, choice); judged && judged->fits()) shapes.push_back(*judged);
    }
    std::stable_sort(shapes.begin(), shapes.end(),
                     [](const JudgedLayout& a, const JudgedLayout& b) { return a.time < b.time; });
    for (size_t i = 0; i < std::min(kExpanded, shapes.size()); ++i) {
      if (shapes[i].time > kWorthExpanding * shapes.front().time) break;
      Expand(judge, shapes[i]);
    }
    RankLayouts(problem_, std::move(hits_), std::move(misses_), result_);
    return std::move(result_);
  }

 private:
  bool Prepare() {
    SearchProblem& p = problem_;
    PlanResult own = MakePlan(p.recipe, p.cluster, p.options);
    if (!p.options.model) return Refuse("the model is not known, so nothing can be estimated");
    auto shape = model::ShapeOf(p.options.model->json);
    if (!shape.ok()) return Refuse(std::string(shape.status().message()));
    p.shape = std::make_shared<const model::ModelShape>(*std::move(shape));
    p.layers = static_cast<int64_t>(p.shape->layers.size());
    p.training = TrainingOf(p.recipe, p.shape, p.cluster.node);
    int nodes = p.options.nodes.value_or(p.cluster.nodes);
    p.ranks_per_node = p.options.ranks_per_node.value_or(std::max(1, p.cluster.node.gpus));
    p.world = nodes * p.ranks_per_node;
    recipe::Diagnostics machines;
    if (!CheckMachines(p.cluster, nodes, p.ranks_per_node, machines)) {
      return Refuse(machines.front().message);
    }
    if (own.plan) {
      p.global_batch_size = own.plan->batch.global_batch_size;
      p.seq_length = own.plan->seq_length.value_or(0);
      RecordOwn(*own.plan);
    } else {
      // The recipe's own layout is refused: its batch may still be met by another.
      p.global_batch_size = p.recipe.OptInt("step_scheduler.global_batch_size").value_or(32);
      p.seq_length = LengthWithoutPlan();
    }
    if (p.seq_length <= 0) {
      return Refuse("the sequence length is not known; ask with --what-if seq=N");
    }
    if (p.global_batch_size <= 0) return Refuse("this kind of recipe has no batch sizes");
    if (p.cluster.node.gpus == 0 || p.cluster.node.peak_tflops_bf16 <= 0) {
      return Refuse("step times are known for GPUs alone; name a cluster with --cluster");
    }
    return true;
  }

  bool Refuse(std::string why) {
    result_.note = std::move(why);
    return false;
  }

  int64_t LengthWithoutPlan() {
    // Any layout that is legal says it: that of a single rank.
    recipe::Recipe alone =
        WithChoice(problem_.recipe, {.strategy = "fsdp2"}, int64_t{1}, problem_.layers);
    PlanOptions options = problem_.options;
    options.nodes = options.ranks_per_node = 1;
    PlanResult planned = MakePlan(alone, problem_.cluster, options);
    return planned.plan ? planned.plan->seq_length.value_or(0) : 0;
  }

  void RecordOwn(const Plan& plan) {
    const Estimates& e = plan.estimates;
    if (!e.workload || !e.step_time || !e.memory) return;
    result_.own = ProposalOf(plan);
    problem_.own = result_.own->choice;
  }

  std::optional<JudgedLayout> Try(const LayoutJudge& judge, const LayoutChoice& choice) {
    ++result_.tried;
    std::optional<JudgedLayout> judged = judge.Judge(choice);
    if (!judged) return std::nullopt;
    ++result_.legal;
    if (judged->fits()) ++result_.fitting;
    (judged->fits() ? hits_ : misses_).push_back(*judged);
    return judged;
  }

  // All else of a shape, one after another.
  void Expand(const LayoutJudge& judge, const JudgedLayout& shape) {
    JudgedLayout best = shape;
    auto try_all = [&](const std::vector<LayoutChoice>& choices) {
      for (const LayoutChoice& choice : choices) {
        auto judged = Try(judge, choice);
        if (judged && judged->fits() && judged->time < best.time) best = *judged;
      }
    };
    try_all(BatchChoices(problem_, shape.choice));
    try_all(StageChoices(problem_, best.choice));
    try_all(ReplicaChoices(problem_, best.choice));
  }

  SearchProblem problem_;
  std::vector<JudgedLayout> hits_, misses_;
  SearchResult result_;
};

}  // namespace

SearchResult SearchLayouts(const recipe::Recipe& recipe, const Cluster& cluster,
                           const PlanOptions& options) {
  return LayoutSearch(recipe, cluster, options).Run();
}

}  // namespace am::plan

// MakeWorkload: what a recipe asks of a machine, as the estimates see it: precision, kernels, what
// each number takes in memory, adapters, routing; and the layout of a plan laid over it.
//   Workload workload = MakeWorkload(recipe, plan, shape, cluster.node);
//
// In two halves, so that a search reads the recipe once and tries many layouts:
//   Training training = TrainingOf(recipe, shape, node);
//   Workload workload = LayOut(training, LayoutOf(plan, node));
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/model/shape.h"
#include "launcher/plan/placement.h"
#include "launcher/plan/workload.h"
#include "launcher/recipe/recipe.h"

namespace am::plan {

struct Plan;

// What no layout changes.
struct Training {
  // Without a layout. Where the recipe is silent about recomputation, `recompute` is kNone and
  // `recompute_assumed` true: whoever knows the memory decides (estimate.h).
  Workload workload;
  bool keeps_experts_gathered = true;  // with ep > 1, unless moe.reshard_after_forward
  bool defers_gradient_sync = true;    // whole gradients where there are several micro-batches
};

struct Layout {
  ParallelDims dims;
  AxisBandwidth bandwidth;
  int ranks_per_node = 1;
  int64_t seq_length = 0;
  int64_t global_batch_size = 0;
  int64_t local_batch_size = 0;
  int64_t micro_batch_size = 0;
  int64_t grad_acc_steps = 1;
  int virtual_stages = 1;
};

Training TrainingOf(const recipe::Recipe& recipe, std::shared_ptr<const model::ModelShape> shape,
                    const NodeShape& node);
Layout LayoutOf(const Plan& plan, const NodeShape& node);
Workload LayOut(const Training& training, const Layout& layout);

Workload MakeWorkload(const recipe::Recipe& recipe, const Plan& plan,
                      std::shared_ptr<const model::ModelShape> shape, const NodeShape& node);

// Layers cut as evenly as can be, the first stages get one more: 10 over 4 is 3, 3, 2, 2.
std::vector<int> CutLayers(int layers, int stages);

// GB/s of the groups of each axis. A collective whose groups leave a domain uses the network ports
// of all its ranks in the domain at once; what travels from one rank to one other has a single
// port.
AxisBandwidth BandwidthOf(const std::vector<PlannedAxis>& axes, const NodeShape& node);

// The samples are of a data set, not made up: their lengths vary.
bool ReadsRealData(const recipe::Recipe& recipe);

// The text of a key that is given: choices in their canonical spelling; nothing for null.
std::optional<std::string> GivenText(const recipe::Recipe& recipe, std::string_view key);

// Whether an adapter goes on a module, by its full name ("model.layers.0.self_attn.q_proj"): in a
// pattern `.` is any character and `*` or `.*` any run of them; without a `*` it is the full name
// or its last component.
bool MatchesPattern(std::string_view pattern, std::string_view module);

// Adapters of the recipe on this shape: names of weights. Nothing without a section peft.
// `modules` is empty where no pattern matches.
std::optional<Adapter> AdapterOf(const recipe::Recipe& recipe, const model::ModelShape& shape);
// The names that an adapter may go on, each once.
std::vector<std::string> LinearNames(const model::ModelShape& shape);

}  // namespace am::plan

#include "launcher/plan/search_choice.h"

#include <absl/strings/str_cat.h>

#include <algorithm>
#include <utility>

#include "launcher/plan/estimate.h"
#include "launcher/plan/make_workload.h"

namespace am::plan {
namespace {

recipe::Value& Child(recipe::Value& map, std::string_view name) {
  if (!map.map()) map.data = recipe::Map();
  auto& entries = std::get<recipe::Map>(map.data);
  for (recipe::Entry& entry : entries) {
    if (entry.key == name) return entry.value;
  }
  recipe::Entry& added = entries.emplace_back();
  added.key = name;
  return added.value;
}

void Remove(recipe::Value& root, std::string_view section, std::string_view name) {
  auto* sections = std::get_if<recipe::Map>(&root.data);
  if (!sections) return;
  for (recipe::Entry& entry : *sections) {
    if (entry.key != section || !entry.value.map()) continue;
    std::erase_if(std::get<recipe::Map>(entry.value.data),
                  [&](const recipe::Entry& value) { return value.key == name; });
  }
}

void Set(recipe::Value& root, std::initializer_list<std::string_view> path,
         decltype(recipe::Value::data) data) {
  recipe::Value* value = &root;
  for (std::string_view name : path) value = &Child(*value, name);
  value->data = std::move(data);
}

// Layers of a stage that make so many stages a rank; rounding makes up for the rest.
int64_t LayersPerStage(int64_t layers, const LayoutChoice& choice) {
  int64_t stages = int64_t{choice.pp} * choice.virtual_stages;
  return std::max<int64_t>(1, (layers + stages - 1) / stages);
}

}  // namespace

recipe::Recipe WithChoice(const recipe::Recipe& recipe, const LayoutChoice& choice,
                          int64_t global_batch_size, int64_t layers) {
  recipe::Value root = recipe.root();
  auto number = [&](std::string_view name, int64_t value) {
    Set(root, {"distributed", name}, value);
  };
  Set(root, {"distributed", "strategy"}, choice.strategy);
  Remove(root, "distributed", "dp_size");
  number("dp_replicate_size", choice.dp_replicate);
  number("tp_size", choice.tp);
  number("cp_size", choice.cp);
  number("pp_size", choice.pp);
  number("ep_size", choice.ep);
  Set(root, {"distributed", "activation_checkpointing"}, std::string(Name(choice.recompute)));
  if (choice.pp > 1) {
    auto pipeline = [&](std::string_view name, decltype(recipe::Value::data) data) {
      Set(root, {"distributed", "pipeline", name}, std::move(data));
    };
    bool single = choice.virtual_stages == 1;
    pipeline("pp_schedule", std::string(single ? "1f1b" : "interleaved1f1b"));
    pipeline("pp_microbatch_size", choice.micro_batch_size);
    if (single) {
      pipeline("layers_per_stage", std::monostate());
    } else {
      pipeline("layers_per_stage", LayersPerStage(layers, choice));
      pipeline("round_virtual_stages_to_pp_multiple", std::string("up"));
    }
  }
  Remove(root, "step_scheduler", "grad_acc_steps");
  Set(root, {"step_scheduler", "global_batch_size"}, global_batch_size);
  Set(root, {"step_scheduler", "local_batch_size"}, choice.local_batch_size);
  if (recipe.Has("dataloader.batch_size")) {
    Set(root, {"dataloader", "batch_size"}, choice.local_batch_size);
  }
  return recipe::Recipe(recipe.file(), std::move(root), recipe.kind());
}

std::vector<std::string> OverridesOf(const recipe::Recipe& recipe, const LayoutChoice& choice,
                                     int64_t global_batch_size, int64_t layers) {
  std::vector<std::string> out;
  auto number = [&](const char* key, int64_t value, int64_t silent) {
    const recipe::Value* given = recipe.Find(key);
    const auto* as = given ? std::get_if<int64_t>(&given->data) : nullptr;
    int64_t now = as && *as > 0 ? *as : silent;
    if (now != value) out.push_back(absl::StrCat("--", key, "=", value));
  };
  auto text = [&](const char* key, std::string_view value, std::string_view silent) {
    if (GivenText(recipe, key).value_or(std::string(silent)) == value) return;
    out.push_back(absl::StrCat("--", key, "=", std::string(value)));
  };
  text("distributed.strategy", choice.strategy, "fsdp2");
  if (recipe.Has("distributed.dp_size")) out.emplace_back("--distributed.dp_size=null");
  number("distributed.dp_replicate_size", choice.dp_replicate, 1);
  number("distributed.tp_size", choice.tp, 1);
  number("distributed.cp_size", choice.cp, 1);
  number("distributed.pp_size", choice.pp, 1);
  number("distributed.ep_size", choice.ep, 1);
  if (choice.pp > 1) {
    bool single = choice.virtual_stages == 1;
    text("distributed.pipeline.pp_schedule", single ? "1f1b" : "interleaved1f1b",
         recipe.Has("distributed.pipeline") ? "1f1b" : "");
    number("distributed.pipeline.pp_microbatch_size", choice.micro_batch_size, 1);
    if (single) {
      if (recipe.Has("distributed.pipeline.layers_per_stage")) {
        out.emplace_back("--distributed.pipeline.layers_per_stage=null");
      }
    } else {
      number("distributed.pipeline.layers_per_stage", LayersPerStage(layers, choice), 0);
      text("distributed.pipeline.round_virtual_stages_to_pp_multiple", "up", "");
    }
  }
  if (recipe.Has("step_scheduler.grad_acc_steps")) {
    out.emplace_back("--step_scheduler.grad_acc_steps=null");
  }
  number("step_scheduler.global_batch_size", global_batch_size, 32);
  bool loader = recipe.Has("dataloader.batch_size");
  if (loader) number("dataloader.batch_size", choice.local_batch_size, 1);
  if (!loader || recipe.Has("step_scheduler.local_batch_size")) {
    number("step_scheduler.local_batch_size", choice.local_batch_size, 1);
  }
  text("distributed.activation_checkpointing", Name(choice.recompute), "");
  return out;
}

}  // namespace am::plan

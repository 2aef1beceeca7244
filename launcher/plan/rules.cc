#include "launcher/plan/rules.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "launcher/plan/arithmetic.h"

namespace am::plan {
namespace {

int64_t Degree(const recipe::Recipe& recipe, std::string_view key) {
  return std::max<int64_t>(1, recipe.OptInt(key).value_or(1));
}

bool DividesKeyValueHeads(int64_t tp, int64_t heads) { return heads % tp == 0 || tp % heads == 0; }

bool IsSingleStage(const std::string& schedule) {
  return schedule == "1f1b" || schedule == "gpipe";
}

// All stages of the model, over all ranks.
std::optional<int64_t> TotalStages(const recipe::Recipe& recipe, int64_t pp, bool single,
                                   const std::optional<model::ModelConfig>& model,
                                   recipe::Diagnostics& out) {
  constexpr char kLayers[] = "distributed.pipeline.layers_per_stage";
  std::optional<int64_t> layers = recipe.OptInt(kLayers);
  if (!layers || !model || model->num_hidden_layers == 0) return pp * (single ? 1 : 2);
  int64_t stages = (model->num_hidden_layers + *layers - 1) / *layers;
  std::string text =
      absl::StrCat(*layers, " cuts ", model->num_hidden_layers, " layers into ", stages, " stages");
  if (stages % pp != 0) {
    std::optional<std::string> round =
        recipe.OptString("distributed.pipeline.round_virtual_stages_to_pp_multiple");
    if (!round) {
      recipe.Error(out, kLayers, absl::StrCat(text, ", no multiple of pp_size ", pp),
                   "set round_virtual_stages_to_pp_multiple to up or down");
      return std::nullopt;
    }
    stages = (*round == "up" ? stages + pp - 1 : stages) / pp * pp;
  }
  if (single ? stages != pp : stages < 2 * pp) {
    recipe.Error(out, kLayers,
                 absl::StrCat(text, "; the schedule needs ",
                              single ? absl::StrCat("one a rank, ", pp)
                                     : absl::StrCat("two or more a rank, at least ", 2 * pp)),
                 single ? "use interleaved1f1b, or leave layers_per_stage out"
                        : "use fewer layers a stage, or 1f1b");
    return std::nullopt;
  }
  return stages;
}

}  // namespace

void CheckModel(const recipe::Recipe& recipe, const model::ModelConfig& model,
                recipe::Diagnostics& out) {
  if (IsBroken(recipe.root(), "model")) return;
  int64_t tp = Degree(recipe, "distributed.tp_size");
  int64_t heads = model.num_attention_heads, kv = model.num_key_value_heads;
  if (tp > 1 && heads > 0) {
    std::vector<int64_t> legal;
    for (int64_t d : DivisorsOf(heads)) {
      if (kv == 0 || DividesKeyValueHeads(d, kv)) legal.push_back(d);
    }
    if (heads % tp != 0) {
      recipe.Error(out, "distributed.tp_size",
                   absl::StrCat(tp, " does not divide num_attention_heads ", heads),
                   absl::StrCat("use ", OrList(legal)));
    } else if (kv > 0 && !DividesKeyValueHeads(tp, kv)) {
      recipe.Error(
          out, "distributed.tp_size",
          absl::StrCat(tp, " neither divides num_key_value_heads ", kv, " nor is a multiple of it"),
          absl::StrCat("use ", OrList(legal)));
    }
  }
  int64_t ep = Degree(recipe, "distributed.ep_size");
  if (ep > 1 && model.num_hidden_layers > 0 && model.num_experts == 0) {
    recipe.Error(out, "distributed.ep_size", absl::StrCat(ep, ", but the model has no experts"),
                 "use 1");
  } else if (ep > 1 && model.num_experts > 0 && model.num_experts % ep != 0) {
    recipe.Error(out, "distributed.ep_size",
                 absl::StrCat(ep, " does not divide the ", model.num_experts, " experts"),
                 absl::StrCat("use ", OrList(DivisorsOf(model.num_experts))));
  }
}

void CheckLayout(const recipe::Recipe& recipe, int world_size,
                 const std::optional<model::ModelConfig>& model, recipe::Diagnostics& out) {
  recipe::Diagnostics found;
  if (model) CheckModel(recipe, *model, found);
  if (!recipe::HasErrors(found)) {
    std::optional<ParallelDims> dims = DeriveDims(recipe, world_size, found);
    bool batches = recipe.Has("step_scheduler") || recipe.kind() == "finetune";
    std::optional<Batch> batch;
    if (dims) batch = batches ? ResolveBatch(recipe, dims->dp(), found) : Batch{};
    if (batch) CutPipeline(recipe, *dims, *batch, model, found);
  }
  out.insert(out.end(), found.begin(), found.end());
}

std::optional<PipelineStages> CutPipeline(const recipe::Recipe& recipe, const ParallelDims& dims,
                                          const Batch& batch,
                                          const std::optional<model::ModelConfig>& model,
                                          recipe::Diagnostics& out) {
  constexpr char kMicro[] = "distributed.pipeline.pp_microbatch_size";
  // megatron_fsdp has no pipeline, as the recipe's own rules say.
  if (dims.pp == 1 || recipe.String("distributed.strategy") == "megatron_fsdp") {
    return std::nullopt;
  }
  for (const char* key : {"distributed.pipeline", kMicro, "distributed.pipeline.pp_schedule",
                          "distributed.pipeline.layers_per_stage",
                          "distributed.pipeline.round_virtual_stages_to_pp_multiple"}) {
    if (IsBroken(recipe.root(), key)) return std::nullopt;
  }
  if (model && model->tie_word_embeddings) {
    recipe.Error(out, "distributed.pp_size",
                 absl::StrCat(dims.pp,
                              " parts the output projection from the embedding, but this "
                              "model ties them (tie_word_embeddings)"),
                 "use 1");
  }
  if (!recipe.Find("distributed.pipeline") || !recipe.Has("distributed.pipeline")) {
    recipe.Error(out, "distributed.pp_size",
                 absl::StrCat(dims.pp, " needs a section distributed.pipeline"),
                 "add pipeline: {pp_schedule: 1f1b, pp_microbatch_size: 1}");
    return std::nullopt;
  }
  int64_t micro = recipe.Int(kMicro);
  int64_t local = batch.local_batch_size;
  PipelineStages stages{.micro_batch_size = micro};
  if (local > 0) {
    if (local % micro != 0) {
      recipe.Error(out, kMicro, absl::StrCat(micro, " does not divide local_batch_size ", local),
                   absl::StrCat("use ", OrList(DivisorsOf(local))));
      return std::nullopt;
    }
    stages.micro_batches = local / micro;
    if (stages.micro_batches < dims.pp) {
      recipe.Error(
          out, kMicro,
          absl::StrCat("local_batch_size ", local, " / ", micro, " = ", stages.micro_batches,
                       " micro-batches are fewer than pp_size ", dims.pp),
          absl::StrCat("use local_batch_size ", micro * dims.pp, " or more"));
      return std::nullopt;
    }
  }
  bool single = IsSingleStage(recipe.String("distributed.pipeline.pp_schedule"));
  std::optional<int64_t> total = TotalStages(recipe, dims.pp, single, model, out);
  if (!total) return std::nullopt;
  stages.virtual_stages = static_cast<int>(*total / dims.pp);
  return stages;
}

}  // namespace am::plan

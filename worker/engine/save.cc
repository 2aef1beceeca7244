#include "worker/engine/save.h"

#include <chrono>
#include <cstdio>

#include "common/error.h"
#include "worker/engine/checkpoint/adapter.h"
#include "worker/engine/checkpoint/hf_export.h"

namespace am::engine {
namespace {

std::string ShardName(const char* folder, int rank) {
  char name[64];
  std::snprintf(name, sizeof name, "%s/shard-%05d.safetensors", folder, rank);
  return name;
}

// The optimizer's tensors in slot order, as chunks "<parameter>.exp_avg" and so on.
std::vector<Chunk> OptimizerChunks(const ParameterStore& store, Optimizer& optimizer) {
  const std::vector<OptimizerState> states = optimizer.State();
  std::vector<Chunk> chunks;
  if (states.empty()) return chunks;
  for (size_t k = 0; k < states.front().tensors.size(); ++k) {
    const std::string suffix = "." + states.front().tensors[k].first;
    for (Chunk& chunk :
         store.SlotChunks([&](size_t i) { return states[i].tensors[k].second; }, suffix))
      chunks.push_back(std::move(chunk));
  }
  return chunks;
}

void WriteShard(CheckpointSave& save, const std::string& name, const std::vector<Chunk>& chunks) {
  save.Add(name, WriteSafetensors(save.Path(name), chunks, {}));
}

void ExportAdapterFrom(const SaveRequest& request, CheckpointSave& save) {
  const WeightReader trained = WeightReader::Open(save.Path("optim"));
  std::vector<AdapterModule> modules;
  for (const std::string& module : request.loaded.adapted)
    modules.push_back({module,
                       trained.Read(module + ".lora_A.weight").to(request.loaded.dtypes.saved),
                       trained.Read(module + ".lora_B.weight").to(request.loaded.dtypes.saved)});
  const std::string name =
      request.spec.model.name.empty() ? request.spec.model.path : request.spec.model.name;
  save.Add(Prefixed(
      ExportAdapter(modules, *request.spec.peft, name, request.spec.model.path, save.Path("model")),
      "model/"));
}

bool WantsConsolidated(const SaveRequest& request) {
  const std::string& policy = request.spec.checkpoint.save_consolidated;
  return policy == "every" || (policy == "final" && request.final);
}

}  // namespace

Snapshot TakeSnapshot(const ParameterStore& store, Optimizer& optimizer, bool copy) {
  Snapshot snapshot{store.ParameterChunks(), OptimizerChunks(store, optimizer)};
  if (copy)
    for (auto* chunks : {&snapshot.weights, &snapshot.optimizer})
      for (Chunk& chunk : *chunks) chunk.data = chunk.data.clone();
  return snapshot;
}

SaveResult SaveCheckpoint(SaveRequest request) {
  const auto start = std::chrono::steady_clock::now();
  const RankSpec& spec = request.spec;
  const ParameterStore& store = *request.loaded.store;
  const bool leader = request.world.rank() == 0;
  CheckpointSave save(spec.checkpoint, request.finished_epoch, request.state.step, spec.attempt,
                      leader);
  if (leader) {
    // Master weights and two moments in float32, and the exported copy.
    const int64_t per_element = 12 + (WantsConsolidated(request) ? 4 : 0);
    save.Begin(store.trainable_numel() * per_element);
  }
  request.world.Barrier();
  if (store.writes_shard()) {
    Snapshot& snapshot = request.snapshot;
    if (spec.peft) {
      for (Chunk& chunk : snapshot.weights) snapshot.optimizer.push_back(std::move(chunk));
    } else {
      WriteShard(save, ShardName("model", request.world.rank()), snapshot.weights);
    }
    WriteShard(save, ShardName("optim", request.world.rank()), snapshot.optimizer);
  }
  request.world.Barrier();
  SaveResult result;
  result.path = save.final_path();
  if (leader) {
    if (spec.peft) {
      ExportAdapterFrom(request, save);
    } else if (WantsConsolidated(request)) {
      save.Add(Prefixed(ExportHf(TensorsOf(WeightReader::Open(save.Path("model"))),
                                 save.Path("model/consolidated"),
                                 {.source_dir = spec.model.path,
                                  .dtype = request.loaded.dtypes.saved,
                                  .config_overrides = spec.model.config_overrides,
                                  .tied_head = request.loaded.model->config().tie_word_embeddings}),
                        "model/consolidated/"));
    }
    save.WriteText("state.json", ToJson(request.state).dump(2) + "\n");
    save.WriteText("losses.json", request.losses.dump() + "\n");
    save.WriteText("config.yaml", spec.checkpoint.config_yaml);
    CheckpointManifest manifest;
    manifest.step = request.state.step;
    manifest.epoch = request.finished_epoch;
    manifest.attempt = spec.attempt;
    manifest.layout = {
        {"world_size", spec.layout.world_size}, {"dp_replicate", spec.layout.dp_replicate},
        {"dp_shard", spec.layout.dp_shard},     {"cp_size", spec.layout.cp_size},
        {"tp_size", spec.layout.tp_size},       {"pp_size", spec.layout.pp_size},
        {"ep_size", spec.layout.ep_size}};
    manifest.fingerprint = spec.checkpoint.run_fingerprint;
    result.bytes = save.Commit(std::move(manifest), request.is_best);
    result.warnings = save.warnings();
  }
  request.world.Barrier();
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

void LoadOptimizer(const std::string& checkpoint_dir, const ParameterStore& store,
                   Optimizer& optimizer) {
  const WeightReader reader = WeightReader::Open(checkpoint_dir + "/optim");
  for (Chunk& chunk : OptimizerChunks(store, optimizer)) {
    if (!reader.Has(chunk.name))
      throw UserError(checkpoint_dir + "/optim: " + chunk.name +
                      " is missing: the checkpoint was written by another optimizer; cure: "
                      "--fresh, or the optimizer it had");
    chunk.data.copy_(
        reader.ReadFlat(chunk.name, chunk.flat_begin, chunk.flat_begin + chunk.data.numel()));
  }
}

}  // namespace am::engine

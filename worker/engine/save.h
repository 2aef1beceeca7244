// SaveCheckpoint: writes one checkpoint of a run, on all ranks together; the leader commits it.
#pragma once

#include "worker/engine/checkpoint/checkpointer.h"
#include "worker/engine/comm/communicator.h"
#include "worker/engine/model_loader.h"
#include "worker/engine/optim/optimizer.h"
#include "worker/rank_io/rank_spec.h"

namespace am::engine {

// What this rank holds of the trained weights and of the optimizer's state, as pieces of the global
// tensors.
struct Snapshot {
  std::vector<Chunk> weights, optimizer;
};
// `copy`: the values of now, whatever the next steps do; else views, to be written before the next
// step.
Snapshot TakeSnapshot(const ParameterStore& store, Optimizer& optimizer, bool copy);

struct SaveRequest {
  const RankSpec& spec;
  const LoadedModel& loaded;  // its shapes and dtypes; the values come from the snapshot
  Snapshot snapshot;
  Communicator& world;
  TrainState state;
  int64_t finished_epoch = 0;  // of the step that was just taken: names the directory
  bool final = false;          // the last step of the run
  bool is_best = false;
  nlohmann::json losses = nlohmann::json::object();
};

struct SaveResult {
  std::string path;
  int64_t bytes = 0;  // leader
  double seconds = 0;
  std::vector<std::string> warnings;
};

// Collective over request.world. Throws am::Error (kIo) on the rank where the disk refused. May run
// on a thread of its own beside the training steps, with a copied snapshot and a communicator that
// nobody else uses.
SaveResult SaveCheckpoint(SaveRequest request);

// The optimizer's state of a checkpoint, into `optimizer`. Throws am::Error (kUser) for one of
// another optimizer.
void LoadOptimizer(const std::string& checkpoint_dir, const ParameterStore& store,
                   Optimizer& optimizer);

}  // namespace am::engine

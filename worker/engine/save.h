// SaveCheckpoint: writes one checkpoint of a run, on all ranks together; the leader commits it.
#pragma once

#include "worker/engine/checkpoint/checkpointer.h"
#include "worker/engine/comm/communicator.h"
#include "worker/engine/model_loader.h"
#include "worker/engine/optim/optimizer.h"
#include "worker/rank_io/rank_spec.h"

namespace am::engine {

struct SaveRequest {
  const RankSpec& spec;
  const LoadedModel& loaded;
  Optimizer& optimizer;
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

// Collective. Throws am::Error (kIo) on the rank where the disk refused.
SaveResult SaveCheckpoint(const SaveRequest& request);

// The optimizer's state of a checkpoint, into `optimizer`. Throws am::Error (kUser) for one of another optimizer.
void LoadOptimizer(const std::string& checkpoint_dir, const ParameterStore& store, Optimizer& optimizer);

}  // namespace am::engine

// Trainer: the training run of one rank, read from top to bottom: set up, then step by step.
//
// A step is the same whatever the layout: gradient = d(sum of token losses over the global batch) /
// (label tokens of the global batch). The supervisor is talked to through RankLink; requests to
// save or leave are agreed between the ranks at the end of a step, so all of them act at the same
// one.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <vector>

#include "worker/engine/checkpoint/directory_lock.h"
#include "worker/engine/comm/communicator.h"
#include "worker/engine/data/dataset.h"
#include "worker/engine/evaluate.h"
#include "worker/engine/metrics/jsonl_log.h"
#include "worker/engine/model_loader.h"
#include "worker/engine/optim/lr_schedule.h"
#include "worker/engine/optim/optimizer.h"
#include "worker/engine/rank_link.h"
#include "worker/engine/save.h"

namespace am::text {
class Tokenizer;
}

namespace am::engine {

class Trainer {
 public:
  Trainer(const RankSpec& spec, const RankIdentity& identity, RankLink& link);
  ~Trainer();
  // Returns am-rank's exit status; throws am::Error and what LibTorch throws.
  int Run();

 private:
  struct StepOutcome {
    double loss = 0, grad_norm = 0, lr = 0, mem_gib = 0, seconds = 0;
    int64_t num_tokens = 0, num_label_tokens = 0;
    bool leave = false, save = false;
  };

  // trainer_setup.cc
  void ChooseThreads();
  void JoinGroups();
  void OpenData();
  void LoadState();  // model, optimizer, and where a checkpoint says to go on
  void OpenLogs();   // leader
  // trainer.cc
  StepOutcome TakeStep(const StepBatch& batch);
  double RunPass(const std::vector<const Sample*>& samples, bool last, double loss_scale);
  void Report(const StepOutcome& outcome);
  void Validate();
  void Save(bool final);
  void FinishSave();  // waits for a save that goes on beside the steps, and rethrows what it threw
  bool leader() const { return identity_.rank == 0; }
  bool AtEpochEnd() const { return state_.step_in_epoch == 0; }  // of the step that was just taken
  bool WantsValidation(bool saving) const;
  bool WantsCheckpoint(const StepOutcome& outcome, bool last) const;

  const RankSpec& spec_;
  RankIdentity identity_;
  RankLink& link_;
  std::unique_ptr<DirectoryLock> directory_lock_;  // leader
  std::unique_ptr<ProcessGroups> groups_;
  std::unique_ptr<Communicator> world_, shard_, replica_;
  std::unique_ptr<Communicator> save_world_;  // all ranks again, for the thread that saves
  std::shared_ptr<text::Tokenizer>
      tokenizer_;  // shared_ptr: the engine-only build has no such class to destroy
  std::unique_ptr<Dataset> dataset_;
  std::unique_ptr<DataLoader> loader_;
  std::vector<std::unique_ptr<Evaluator>> evaluators_;
  LoadedModel loaded_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<LrSchedule> schedule_;
  std::unique_ptr<JsonlLog> training_log_;
  std::vector<std::unique_ptr<JsonlLog>> validation_logs_;
  TrainState state_;
  std::string restored_from_;
  int64_t finished_epoch_ = 0;  // of the step that was just taken
  int64_t steps_per_epoch_ = 0;
  int64_t total_steps_ = 0;
  int64_t token_budget_ = 0;
  std::future<void> saving_;
  double last_loss_ = 0;
  std::optional<double> validation_loss_;  // of the step that was just taken
  std::vector<std::pair<std::string, double>> validation_losses_;
};

}  // namespace am::engine

// Checkpointer: the life of a checkpoint directory, from staging to commit to retention, and the choice of one to resume.
//
//   .epoch_0_step_10.staging-<attempt>/   written by all ranks, every file fsynced
//     manifest.json                       last: {format: 1, files [{path, bytes, xxh3_128}], layout, fingerprint, ...}
//   epoch_0_step_10/                      the rename is the commit; LATEST moves and old ones go only after it
//
// A directory without a good manifest is never resumed from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "worker/rank_io/rank_spec.h"

namespace am::engine {

// What a checkpoint must restore besides tensors; everything else is a function of these and the seed.
struct TrainState {
  int64_t step = 0;                 // optimizer steps taken
  int64_t epoch = 0;                // epoch of the next step
  int64_t step_in_epoch = 0;        // of the next step, from 0
  int64_t samples_seen = 0;
  int64_t optimizer_steps = 0;
  uint64_t seed = 42;
  std::optional<double> best_validation_loss;
  std::vector<int64_t> validated_steps;  // the last few, so that resuming at step N does not validate N again
  nlohmann::json lr_scheduler = nlohmann::json::object();
};
nlohmann::json ToJson(const TrainState& state);
TrainState TrainStateFromJson(const nlohmann::json& json);

struct ManifestFile {
  std::string path;  // relative to the checkpoint
  int64_t bytes = 0;
  std::string xxh3_128;
};

struct CheckpointManifest {
  int format = 1;
  int64_t step = 0;
  int64_t epoch = 0;
  int64_t attempt = 1;
  nlohmann::json layout;
  nlohmann::json fingerprint;
  std::vector<ManifestFile> files;
};

enum class Verify { kSizes, kChecksums };

// Reads and checks a checkpoint's manifest. Throws am::Error (kUser) saying what is missing or damaged.
CheckpointManifest ReadManifest(const std::string& checkpoint_dir, Verify verify);

struct ResumeChoice {
  std::string path;                   // empty: start fresh
  std::vector<std::string> notes;     // e.g. "skipped epoch_0_step_20: no manifest"
};
// spec.restore_from null: LATEST if complete, else the complete one with the highest step, else fresh. Refuses (kUser) one whose
// fingerprint differs, naming the keys that differ and the cures.
ResumeChoice ChooseResume(const CheckpointSpec& spec);

// One save, on one rank. Every rank calls Begin and Finish with barriers between, as trainer.cc shows.
class CheckpointSave {
 public:
  CheckpointSave(const CheckpointSpec& spec, int64_t epoch, int64_t step, int64_t attempt, bool leader);
  void Begin();                                 // leader: makes the staging directory
  std::string Path(const std::string& relative) const;  // in staging, parent directories made
  void WriteText(const std::string& relative, const std::string& text);  // fsynced
  // Leader, after all ranks wrote: manifest, fsync, rename, LATEST (and LOWEST_VAL when best), retention. Returns bytes written.
  int64_t Commit(CheckpointManifest manifest, bool is_best);
  const std::string& final_path() const;

 private:
  CheckpointSpec spec_;
  bool leader_;
  std::string staging_path_;
  std::string final_path_;
};

// Leader, at start: removes staging directories that dead attempts left behind.
void RemoveStaleStaging(const std::string& root);

// training.jsonl / validation.jsonl: one line a step, flushed as written; on resume lines past the restored step move to
// <name>.superseded.jsonl.
void SupersedeLinesAfter(const std::string& jsonl_path, int64_t step);

}  // namespace am::engine

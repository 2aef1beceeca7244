// Checkpointer: the life of a checkpoint directory, from staging to commit to retention, and the
// choice of one to resume.
//
//   .epoch_0_step_10.staging-<attempt>/   written by all ranks, every file fsynced
//     manifest.json                       last: {format: 1, files [{path, bytes, xxh3_128}],
//     layout, fingerprint, ...}
//   epoch_0_step_10/                      the rename is the commit; LATEST moves and old ones go
//   only after it
//
// A directory without a good manifest is never resumed from. Free of LibTorch. Used by the trainer,
// on its thread:
//
//   CheckpointSave save(spec.checkpoint, epoch, step, attempt, /*leader=*/rank == 0);
//   save.Begin(estimated_bytes);  // then a barrier
//   save.Add("model/shard-00001.safetensors",
//   WriteSafetensors(save.Path("model/shard-00001.safetensors"), chunks, {}));
//   // a barrier, then the leader alone: export, state.json, ...
//   if (leader) bytes = save.Commit(manifest, is_best);
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "worker/engine/checkpoint/file_ops.h"
#include "worker/rank_io/rank_spec.h"

namespace am::engine {

// What a checkpoint must restore besides tensors; everything else is a function of these and the
// seed.
struct TrainState {
  int64_t step = 0;           // optimizer steps taken
  int64_t epoch = 0;          // epoch of the next step
  int64_t step_in_epoch = 0;  // of the next step, from 0
  int64_t samples_seen = 0;
  int64_t optimizer_steps = 0;
  uint64_t seed = 42;
  std::optional<double> best_validation_loss;
  nlohmann::json lr_scheduler = nlohmann::json::object();  // as it was resolved
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

// Reads and checks a checkpoint's manifest. Throws am::Error (kUser) saying what is missing or
// damaged. Checksums are computed by several threads.
CheckpointManifest ReadManifest(const std::string& checkpoint_dir, Verify verify);

struct ResumeChoice {
  std::string path;                // empty: start fresh
  std::vector<std::string> notes;  // e.g. "skipped epoch_0_step_20: no manifest"
  CheckpointManifest manifest;     // of `path`
};
// spec.restore_from empty: LATEST if complete, else the complete one with the highest step, else
// fresh. Refuses (kUser) one whose fingerprint differs, naming the keys that differ and the cures.
// An explicit restore_from is taken all the same, with a note. An empty spec.run_fingerprint is not
// compared. The leader chooses and tells the others.
ResumeChoice ChooseResume(const CheckpointSpec& spec, Verify verify = Verify::kChecksums);

// The keys (dotted) in which two fingerprints differ, each as "model.hidden_size: 576 there, 768
// here".
std::vector<std::string> FingerprintDifferences(const nlohmann::json& there,
                                                const nlohmann::json& here);

// One save, on one rank. Every rank makes one; the leader commits after a barrier. One that is not
// committed (an exception) takes its staging directory with it.
class CheckpointSave {
 public:
  CheckpointSave(const CheckpointSpec& spec, int64_t epoch, int64_t step, int64_t attempt,
                 bool leader);
  ~CheckpointSave();
  CheckpointSave(const CheckpointSave&) = delete;
  CheckpointSave& operator=(const CheckpointSave&) = delete;

  // Leader: makes the staging directory; throws am::Error (kIo) at once where less than
  // `estimated_bytes` are free.
  void Begin(int64_t estimated_bytes = 0);
  std::string Path(const std::string& relative) const;  // in staging, parent directories made
  // Any rank, for a file it wrote: its digest, so that the leader need not read it again. Files
  // that nobody adds are read.
  void Add(const std::string& relative, const FileDigest& digest);
  void Add(const std::vector<ManifestFile>& files);  // paths relative to the checkpoint
  void WriteText(const std::string& relative, const std::string& text);  // fsynced, added
  // Leader, after all ranks wrote: manifest, fsync, rename, LATEST (and LOWEST_VAL when best),
  // retention. Returns bytes written. Files that stand in manifest.files already must be there
  // (with these sizes, where given); all others found are added.
  int64_t Commit(CheckpointManifest manifest, bool is_best);

  const std::string& final_path() const { return final_path_; }
  const std::vector<std::string>& warnings() const {
    return warnings_;
  }  // of Commit: an old one that could not go

 private:
  std::vector<ManifestFile> CollectFiles(const std::vector<ManifestFile>& promised) const;
  void Publish();
  void PruneOld();

  CheckpointSpec spec_;
  int64_t epoch_;
  int64_t step_;
  int64_t attempt_;
  bool leader_;
  bool begun_ = false;
  bool committed_ = false;
  std::string staging_path_;
  std::string final_path_;
  std::vector<std::string> warnings_;
};

std::string CheckpointDirName(int64_t epoch, int64_t step);  // epoch_0_step_10

// Leader, at start: removes staging directories (and half-removed checkpoints) that dead attempts
// left behind.
void RemoveStaleStaging(const std::string& root);

// training.jsonl / validation.jsonl: one line a step, flushed as written; on resume lines past the
// restored step move to <name>.superseded.jsonl, and so does a last line that was cut short.
void SupersedeLinesAfter(const std::string& jsonl_path, int64_t step);

}  // namespace am::engine

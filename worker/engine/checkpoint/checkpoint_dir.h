// The directory that holds the checkpoints of a run: names, pointers (LATEST, LOWEST_VAL), and
// which ones retention lets go. Inside of this room only; checkpointer.h is the door.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/error.h"
#include "worker/engine/checkpoint/checkpointer.h"

namespace am::engine {

inline constexpr char kManifestName[] = "manifest.json";
inline constexpr char kLatest[] = "LATEST";
inline constexpr char kLowestVal[] = "LOWEST_VAL";
inline constexpr char kDigestSuffix[] =
    ".xxh";  // beside a staged file: its digest, until the manifest has it

std::string StagingName(int64_t epoch, int64_t step,
                        int64_t attempt);  // .epoch_0_step_10.staging-1
bool IsStagingName(const std::string& name);

struct CheckpointDir {
  std::string name;
  int64_t epoch = 0;
  int64_t step = 0;
  bool superseded = false;  // epoch_0_step_10.superseded-2: made room for another attempt's
};
std::optional<CheckpointDir> ParseCheckpointName(const std::string& name);

// Newest first, by step, then epoch; superseded ones included. None where the directory is missing.
std::vector<CheckpointDir> ListCheckpoints(const std::string& root);

// The path a pointer leads to: a symbolic link, or the name in <pointer>.txt. It need not exist.
std::optional<std::string> ReadPointer(const std::string& root, const std::string& pointer);
// Replaces it in one step; where there are no symbolic links, <pointer>.txt.
void WritePointer(const std::string& root, const std::string& pointer,
                  const std::string& target_name);
// The names of the directories inside `root` that links or UPPERCASE.txt files of it lead to.
std::set<std::string> PointedNames(const std::string& root);

// Which of `ours` (newest first) go when the newest `keep` stay: neither pointed ones nor those
// among the newest.
std::vector<std::string> NamesToRemove(const std::vector<CheckpointDir>& ours, int64_t keep,
                                       const std::set<std::string>& pointed);

// A manifest that a newer program wrote: never skipped silently.
class UnknownFormatError : public Error {
 public:
  using Error::Error;
};

nlohmann::json ToJson(const CheckpointManifest& manifest);

}  // namespace am::engine

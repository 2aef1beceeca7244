#include "worker/engine/checkpoint/checkpointer.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <utility>

#include "common/error.h"
#include "worker/engine/checkpoint/checkpoint_dir.h"

namespace am::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

bool IsSidecar(const fs::path& path) { return path.extension() == kDigestSuffix; }

// The digest beside a staged file, if the rank that wrote it left one that fits.
bool ReadSidecar(const std::string& path, int64_t bytes, ManifestFile* file) {
  std::ifstream in(path + kDigestSuffix);
  FileDigest digest;
  if (!(in >> digest.bytes >> digest.xxh3_128) || digest.bytes != bytes ||
      digest.xxh3_128.size() != 32)
    return false;
  file->xxh3_128 = digest.xxh3_128;
  return true;
}

std::vector<fs::directory_entry> TreeOf(const std::string& root) {
  try {
    const fs::recursive_directory_iterator begin(root);
    return {begin, fs::recursive_directory_iterator()};
  } catch (const fs::filesystem_error& e) {
    throw IoError(root + ": cannot be read: " + e.code().message());
  }
}

// Every directory of a tree, deepest first, itself last.
std::vector<std::string> DirectoriesOf(const std::string& root) {
  std::vector<std::string> directories = {root};
  for (const fs::directory_entry& item : TreeOf(root)) {
    if (item.is_directory() && !item.is_symlink()) directories.push_back(item.path().string());
  }
  std::sort(directories.begin(), directories.end(), std::greater<>());
  return directories;
}

}  // namespace

CheckpointSave::CheckpointSave(const CheckpointSpec& spec, int64_t epoch, int64_t step,
                               int64_t attempt, bool leader)
    : spec_(spec), epoch_(epoch), step_(step), attempt_(attempt), leader_(leader) {
  staging_path_ = (fs::path(spec_.dir) / StagingName(epoch, step, attempt)).string();
  final_path_ = (fs::path(spec_.dir) / CheckpointDirName(epoch, step)).string();
}

CheckpointSave::~CheckpointSave() {
  if (!leader_ || !begun_ || committed_) return;
  std::error_code ignored;
  fs::remove_all(staging_path_, ignored);
}

void CheckpointSave::Begin(int64_t estimated_bytes) {
  if (!leader_) return;
  MakeDirectories(spec_.dir);
  std::error_code ignored;
  fs::remove_all(staging_path_, ignored);
  const int64_t free_bytes = FreeBytes(spec_.dir);
  if (estimated_bytes > free_bytes) {
    throw IoError(final_path_ + ": not enough room for a checkpoint: " +
                  HumanBytes(estimated_bytes) + " needed, " + HumanBytes(free_bytes) +
                  " free; make room, lower checkpoint.max_recent_checkpoints or choose another "
                  "checkpoint.checkpoint_dir");
  }
  begun_ = true;
  MakeDirectories(staging_path_);
}

std::string CheckpointSave::Path(const std::string& relative) const {
  const fs::path path = fs::path(staging_path_) / relative;
  MakeDirectories(path.parent_path().string());
  return path.string();
}

void CheckpointSave::Add(const std::string& relative, const FileDigest& digest) {
  // Only a hint that saves work, so neither fsynced nor checked: without it the leader reads the
  // file.
  std::ofstream(Path(relative) + kDigestSuffix) << digest.bytes << ' ' << digest.xxh3_128 << '\n';
}

void CheckpointSave::Add(const std::vector<ManifestFile>& files) {
  for (const ManifestFile& file : files) Add(file.path, FileDigest{file.bytes, file.xxh3_128});
}

void CheckpointSave::WriteText(const std::string& relative, const std::string& text) {
  Add(relative, WriteFileDurably(Path(relative), text));
}

int64_t CheckpointSave::Commit(CheckpointManifest manifest, bool is_best) {
  if (!leader_) throw InternalError("only the leader commits a checkpoint");
  manifest.step = step_;
  manifest.epoch = epoch_;
  manifest.attempt = attempt_;
  manifest.files = CollectFiles(manifest.files);
  for (const std::string& directory : DirectoriesOf(staging_path_)) SyncDirectory(directory);
  int64_t bytes = WriteFileDurably(Path(kManifestName), ToJson(manifest).dump(1) + "\n").bytes;
  for (const ManifestFile& file : manifest.files) bytes += file.bytes;
  SyncDirectory(staging_path_);

  Publish();
  const std::string name = CheckpointDirName(epoch_, step_);
  WritePointer(spec_.dir, kLatest, name);
  if (is_best) WritePointer(spec_.dir, kLowestVal, name);
  PruneOld();
  return bytes;
}

std::vector<ManifestFile> CheckpointSave::CollectFiles(
    const std::vector<ManifestFile>& promised) const {
  std::map<std::string, ManifestFile> files;
  std::vector<fs::path> sidecars;
  for (const fs::directory_entry& item : TreeOf(staging_path_)) {
    if (!item.is_regular_file()) continue;
    if (IsSidecar(item.path())) {
      sidecars.push_back(item.path());
      continue;
    }
    ManifestFile file{item.path().lexically_relative(staging_path_).string(),
                      static_cast<int64_t>(item.file_size()), ""};
    if (!ReadSidecar(item.path().string(), file.bytes, &file)) {
      SyncFile(item.path().string());
      file.xxh3_128 = HashFile(item.path().string()).xxh3_128;
    }
    files.emplace(file.path, std::move(file));
  }
  for (const ManifestFile& file : promised) {
    const auto found = files.find(file.path);
    if (found == files.end())
      throw IoError(staging_path_ + ": " + file.path + " was promised but is not there");
    if (file.bytes > 0 && found->second.bytes != file.bytes) {
      throw IoError(staging_path_ + ": " + file.path + " has " +
                    std::to_string(found->second.bytes) + " bytes instead of " +
                    std::to_string(file.bytes));
    }
  }
  std::error_code ignored;
  for (const fs::path& sidecar : sidecars) fs::remove(sidecar, ignored);
  std::vector<ManifestFile> sorted;
  for (auto& [path, file] : files) sorted.push_back(std::move(file));
  return sorted;
}

// The rename that makes it a checkpoint. What has the name already changes places with it, so that
// at no moment neither is there.
void CheckpointSave::Publish() {
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(final_path_, ignored))) {
    RenamePath(staging_path_, final_path_);
    committed_ = true;
  } else {
    std::string aside = final_path_ + ".superseded-" + std::to_string(attempt_);
    for (int i = 2; fs::exists(fs::symlink_status(aside, ignored)); ++i) {
      aside = final_path_ + ".superseded-" + std::to_string(attempt_) + "-" + std::to_string(i);
    }
    if (ExchangePaths(staging_path_, final_path_)) {
      committed_ = true;
      RenamePath(staging_path_, aside);
    } else {
      RenamePath(final_path_, aside);
      RenamePath(staging_path_, final_path_);
      committed_ = true;
    }
  }
  SyncDirectory(spec_.dir);
}

// Only what is ours goes: a directory without a manifest may be anybody's. What cannot go is no
// reason to stop a training.
void CheckpointSave::PruneOld() {
  if (!spec_.max_recent_checkpoints) return;
  std::vector<CheckpointDir> ours = ListCheckpoints(spec_.dir);
  std::erase_if(ours, [&](const CheckpointDir& dir) {
    std::error_code ignored;
    return !fs::exists(fs::path(spec_.dir) / dir.name / kManifestName, ignored);
  });
  for (const std::string& name :
       NamesToRemove(ours, *spec_.max_recent_checkpoints, PointedNames(spec_.dir))) {
    try {
      RemoveTree((fs::path(spec_.dir) / name).string());
    } catch (const Error& e) {
      warnings_.push_back(e.what());
    }
  }
}

void RemoveStaleStaging(const std::string& root) {
  std::vector<std::string> stale;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(root, error)) {
    const std::string name = item.path().filename().string();
    std::error_code ignored;
    const bool is_ours = IsStagingName(name) || name.rfind(kDeletingPrefix, 0) == 0;
    if (is_ours && item.is_directory(ignored) && !item.is_symlink(ignored))
      stale.push_back(item.path().string());
  }
  if (error && error != std::errc::no_such_file_or_directory)
    throw IoError(root + ": cannot be read: " + error.message());
  for (const std::string& path : stale) RemoveTree(path);
}

}  // namespace am::engine

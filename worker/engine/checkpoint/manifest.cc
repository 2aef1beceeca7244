// TrainState and CheckpointManifest as JSON, and what makes a manifest good.
#include <algorithm>
#include <atomic>
#include <exception>
#include <filesystem>
#include <mutex>
#include <thread>

#include "common/error.h"
#include "worker/engine/checkpoint/checkpoint_dir.h"
#include "worker/engine/checkpoint/checkpointer.h"

namespace am::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int kFormat = 1;

CheckpointManifest ManifestFromJson(const json& document, const std::string& path) {
  if (!document.is_object() || !document.contains("format") ||
      !document["format"].is_number_integer()) {
    throw UserError(path + ": has no format; it is damaged or not ours");
  }
  const auto format = document["format"].get<int64_t>();
  if (format != kFormat) {
    throw UnknownFormatError(ErrorKind::kUser,
                             path + ": format " + document["format"].dump() +
                                 " is not known here, only " + std::to_string(kFormat) +
                                 "; use the version of the program that wrote it");
  }
  CheckpointManifest manifest;
  manifest.step = document.at("step").get<int64_t>();
  manifest.epoch = document.at("epoch").get<int64_t>();
  manifest.attempt = document.value("attempt", int64_t{1});
  manifest.layout = document.value("layout", json());
  manifest.fingerprint = document.value("fingerprint", json());
  for (const json& item : document.at("files")) {
    ManifestFile file{item.at("path").get<std::string>(), item.at("bytes").get<int64_t>(),
                      item.at("xxh3_128").get<std::string>()};
    const fs::path relative(file.path);
    const bool leaves = std::find(relative.begin(), relative.end(), "..") != relative.end();
    if (relative.empty() || relative.is_absolute() || leaves) {
      throw UserError(path + ": names the file '" + file.path +
                      "', which is not inside the checkpoint");
    }
    manifest.files.push_back(std::move(file));
  }
  return manifest;
}

void CheckSize(const std::string& dir, const ManifestFile& file) {
  std::error_code error;
  const std::string path = (fs::path(dir) / file.path).string();
  const auto bytes = static_cast<int64_t>(fs::file_size(path, error));
  if (error == std::errc::permission_denied)
    throw IoError(path + ": cannot be read: " + error.message());
  if (error) throw UserError(dir + ": " + file.path + " is missing");
  if (bytes != file.bytes) {
    throw UserError(dir + ": " + file.path + " has " + std::to_string(bytes) +
                    " bytes instead of " + std::to_string(file.bytes));
  }
}

// Largest first over a few threads: a checkpoint is a handful of large files, and one thread does
// not keep a fast disk busy.
void CheckChecksums(const std::string& dir, std::vector<ManifestFile> files) {
  std::sort(files.begin(), files.end(),
            [](const ManifestFile& a, const ManifestFile& b) { return a.bytes > b.bytes; });
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr first_failure;
  const auto work = [&] {
    for (size_t i = next++; i < files.size(); i = next++) {
      try {
        if (HashFile((fs::path(dir) / files[i].path).string()).xxh3_128 != files[i].xxh3_128) {
          throw UserError(dir + ": " + files[i].path +
                          " is damaged: its checksum is not that of the manifest");
        }
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first_failure) first_failure = std::current_exception();
        next = files.size();
      }
    }
  };
  {
    constexpr unsigned kMaxThreads = 8;
    const unsigned threads = std::clamp(std::thread::hardware_concurrency(), 1u, kMaxThreads);
    std::vector<std::jthread> helpers;
    for (unsigned i = 1; i < threads && i < files.size(); ++i) helpers.emplace_back(work);
    work();
  }
  if (first_failure) std::rethrow_exception(first_failure);
}

}  // namespace

json ToJson(const TrainState& state) {
  return {{"step", state.step},
          {"epoch", state.epoch},
          {"step_in_epoch", state.step_in_epoch},
          {"samples_seen", state.samples_seen},
          {"optimizer_steps", state.optimizer_steps},
          {"seed", state.seed},
          {"best_validation_loss",
           state.best_validation_loss ? json(*state.best_validation_loss) : json()},
          {"lr_scheduler", state.lr_scheduler}};
}

TrainState TrainStateFromJson(const json& document) {
  TrainState state;
  try {
    state.step = document.at("step").get<int64_t>();
    state.epoch = document.at("epoch").get<int64_t>();
    state.step_in_epoch = document.at("step_in_epoch").get<int64_t>();
    state.samples_seen = document.at("samples_seen").get<int64_t>();
    state.optimizer_steps = document.at("optimizer_steps").get<int64_t>();
    state.seed = document.at("seed").get<uint64_t>();
    const json& best = document.at("best_validation_loss");
    if (!best.is_null()) state.best_validation_loss = best.get<double>();
    state.lr_scheduler = document.value("lr_scheduler", json::object());
  } catch (const json::exception& e) {
    throw UserError(std::string("state.json of the checkpoint: ") + e.what());
  }
  return state;
}

json ToJson(const CheckpointManifest& manifest) {
  json files = json::array();
  for (const ManifestFile& file : manifest.files) {
    files.push_back({{"path", file.path}, {"bytes", file.bytes}, {"xxh3_128", file.xxh3_128}});
  }
  return {{"format", kFormat},
          {"step", manifest.step},
          {"epoch", manifest.epoch},
          {"attempt", manifest.attempt},
          {"layout", manifest.layout},
          {"fingerprint", manifest.fingerprint},
          {"files", files}};
}

CheckpointManifest ReadManifest(const std::string& checkpoint_dir, Verify verify) {
  const std::string path = (fs::path(checkpoint_dir) / kManifestName).string();
  std::error_code error;
  if (!fs::exists(path, error))
    throw UserError(checkpoint_dir + ": is no complete checkpoint: it has no " + kManifestName);
  CheckpointManifest manifest;
  try {
    manifest = ManifestFromJson(json::parse(ReadTextFile(path)), path);
  } catch (const json::exception& e) {
    throw UserError(path + ": is damaged: " + e.what());
  }
  for (const ManifestFile& file : manifest.files) CheckSize(checkpoint_dir, file);
  if (verify == Verify::kChecksums) CheckChecksums(checkpoint_dir, manifest.files);
  return manifest;
}

}  // namespace am::engine

// Which checkpoint a run continues from.
#include <algorithm>
#include <filesystem>
#include <map>

#include "common/error.h"
#include "worker/engine/checkpoint/checkpoint_dir.h"
#include "worker/engine/checkpoint/checkpointer.h"

namespace am::engine {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return text;
}

// {"model": {"hidden_size": 576}} as {"model.hidden_size": 576}; lists are compared as wholes.
void Flatten(const json& value, const std::string& prefix, std::map<std::string, json>* flat) {
  if (!value.is_object() || value.empty()) {
    if (!prefix.empty()) (*flat)[prefix] = value;
    return;
  }
  for (const auto& [key, item] : value.items())
    Flatten(item, prefix.empty() ? key : prefix + "." + key, flat);
}

std::string Shown(const std::map<std::string, json>& flat, const std::string& key) {
  const auto found = flat.find(key);
  if (found == flat.end()) return "absent";
  constexpr size_t kShown = 80;
  std::string text = found->second.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > kShown) text = text.substr(0, kShown) + "...";
  return text;
}

std::string Joined(const std::vector<std::string>& lines, const std::string& separator) {
  std::string text;
  for (const std::string& line : lines) text += (text.empty() ? "" : separator) + line;
  return text;
}

std::vector<std::string> Differences(const CheckpointSpec& spec,
                                     const CheckpointManifest& manifest) {
  if (spec.run_fingerprint.empty()) return {};
  return FingerprintDifferences(manifest.fingerprint, spec.run_fingerprint);
}

void RefuseOtherRun(const CheckpointSpec& spec, const ResumeChoice& choice) {
  const std::vector<std::string> differences = Differences(spec, choice.manifest);
  if (differences.empty()) return;
  throw UserError(choice.path + ": was written by another run; there and here differ in\n  " +
                  Joined(differences, "\n  ") +
                  "\nUse --fresh to start anew, checkpoint.restore_from=" + choice.path +
                  " to continue from it all the same, or another checkpoint.checkpoint_dir");
}

// LATEST first, then the others from the newest on.
ResumeChoice ChooseNewest(const CheckpointSpec& spec, Verify verify) {
  std::vector<std::string> candidates;
  if (const auto latest = ReadPointer(spec.dir, kLatest)) candidates.push_back(*latest);
  for (const CheckpointDir& dir : ListCheckpoints(spec.dir)) {
    const std::string path = (fs::path(spec.dir) / dir.name).string();
    if (!dir.superseded && (candidates.empty() || candidates[0] != path))
      candidates.push_back(path);
  }
  ResumeChoice choice;
  for (const std::string& path : candidates) {
    try {
      choice.manifest = ReadManifest(path, verify);
      choice.path = path;
      return choice;
    } catch (const UnknownFormatError&) {
      throw;
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::kUser) throw;
      choice.notes.push_back("skipped " + fs::path(path).filename().string() + ": " + e.what());
    }
  }
  return choice;
}

std::string WhatIsThere(const std::string& root) {
  constexpr size_t kMostShown = 5;
  std::vector<std::string> names;
  for (const char* pointer : {kLatest, kLowestVal}) {
    if (ReadPointer(root, pointer)) names.push_back(pointer);
  }
  const std::vector<CheckpointDir> dirs = ListCheckpoints(root);
  size_t shown = 0;
  for (const CheckpointDir& dir : dirs) {
    if (shown++ < kMostShown) names.push_back(dir.name);
  }
  if (dirs.size() > kMostShown)
    names.push_back("and " + std::to_string(dirs.size() - kMostShown) + " more");
  return names.empty() ? root + " has no checkpoint" : root + " has " + Joined(names, ", ");
}

// A path has a slash; a name is that of a pointer or of a directory among the checkpoints.
ResumeChoice ChooseNamed(const CheckpointSpec& spec, Verify verify) {
  const std::string& wanted = spec.restore_from;
  std::string path = wanted;
  if (wanted.find('/') == std::string::npos) {
    path = ReadPointer(spec.dir, wanted).value_or((fs::path(spec.dir) / wanted).string());
  }
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    throw UserError("checkpoint.restore_from: " + wanted + ": there is no such directory" +
                    (path == wanted ? "" : " (" + path + ")") + "; " + WhatIsThere(spec.dir));
  }
  ResumeChoice choice;
  try {
    choice.manifest = ReadManifest(path, verify);
  } catch (const Error& e) {
    throw Error(e.kind(),
                std::string("checkpoint.restore_from: ") + e.what() + "; " + WhatIsThere(spec.dir));
  }
  choice.path = path;
  return choice;
}

}  // namespace

std::vector<std::string> FingerprintDifferences(const json& there, const json& here) {
  std::map<std::string, json> flat_there, flat_here, all;
  Flatten(there, "", &flat_there);
  Flatten(here, "", &flat_here);
  all = flat_there;
  all.insert(flat_here.begin(), flat_here.end());
  std::vector<std::string> differences;
  for (const auto& [key, unused] : all) {
    const auto a = flat_there.find(key), b = flat_here.find(key);
    if (a != flat_there.end() && b != flat_here.end() && a->second == b->second) continue;
    differences.push_back(key + ": " + Shown(flat_there, key) + " there, " + Shown(flat_here, key) +
                          " here");
  }
  return differences;
}

ResumeChoice ChooseResume(const CheckpointSpec& spec, Verify verify) {
  if (!spec.enabled || spec.fresh) return {};
  if (spec.restore_from.empty()) {
    ResumeChoice choice = ChooseNewest(spec, verify);
    if (!choice.path.empty()) RefuseOtherRun(spec, choice);
    return choice;
  }
  const bool newest = Lower(spec.restore_from) == Lower(kLatest);
  ResumeChoice choice = newest ? ChooseNewest(spec, verify) : ChooseNamed(spec, verify);
  if (choice.path.empty()) {
    choice.notes.push_back("checkpoint.restore_from: " + spec.restore_from + ": " + spec.dir +
                           " has no complete checkpoint, so training starts from the beginning");
    return choice;
  }
  const std::vector<std::string> differences = Differences(spec, choice.manifest);
  if (!differences.empty()) {
    choice.notes.push_back(
        choice.path +
        " was written by another run, and is continued from because checkpoint.restore_from "
        "says so; there and here differ in " +
        Joined(differences, "; "));
  }
  return choice;
}

}  // namespace am::engine

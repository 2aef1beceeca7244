#include "worker/engine/checkpoint/checkpoint_dir.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <tuple>

namespace am::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuperseded = ".superseded-";
constexpr std::string_view kStaging = ".staging-";

// Takes `prefix` and the decimal number after it off the front of `text`.
bool TakeNumber(std::string_view prefix, std::string_view* text, int64_t* number) {
  if (text->substr(0, prefix.size()) != prefix) return false;
  text->remove_prefix(prefix.size());
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *number);
  if (error != std::errc() || *number < 0) return false;
  text->remove_prefix(static_cast<size_t>(end - text->data()));
  return true;
}

std::string Trimmed(const std::string& text) {
  const auto begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

}  // namespace

std::string CheckpointDirName(int64_t epoch, int64_t step) {
  return "epoch_" + std::to_string(epoch) + "_step_" + std::to_string(step);
}

std::string StagingName(int64_t epoch, int64_t step, int64_t attempt) {
  std::string name = ".";
  name += CheckpointDirName(epoch, step);
  name += kStaging;
  name += std::to_string(attempt);
  return name;
}

bool IsStagingName(const std::string& name) {
  const auto at = name.find(kStaging);
  return name.size() > 1 && name[0] == '.' && at != std::string::npos &&
         ParseCheckpointName(name.substr(1, at - 1)).has_value();
}

std::optional<CheckpointDir> ParseCheckpointName(const std::string& name) {
  CheckpointDir found{.name = name};
  std::string_view rest = name;
  if (!TakeNumber("epoch_", &rest, &found.epoch) || !TakeNumber("_step_", &rest, &found.step))
    return std::nullopt;
  found.superseded = rest.substr(0, kSuperseded.size()) == kSuperseded;
  if (!found.superseded && !rest.empty()) return std::nullopt;
  return found;
}

std::vector<CheckpointDir> ListCheckpoints(const std::string& root) {
  std::vector<CheckpointDir> found;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(root, error)) {
    std::error_code ignored;
    if (item.is_symlink(ignored) || !item.is_directory(ignored)) continue;
    if (auto dir = ParseCheckpointName(item.path().filename().string()))
      found.push_back(std::move(*dir));
  }
  if (error && error != std::errc::no_such_file_or_directory)
    throw IoError(root + ": cannot be read: " + error.message());
  std::sort(found.begin(), found.end(), [](const CheckpointDir& a, const CheckpointDir& b) {
    return std::tie(b.step, b.epoch, a.name) < std::tie(a.step, a.epoch, b.name);
  });
  return found;
}

std::optional<std::string> ReadPointer(const std::string& root, const std::string& pointer) {
  const fs::path link = fs::path(root) / pointer;
  std::error_code error;
  if (fs::is_symlink(link, error)) {
    const fs::path target = fs::read_symlink(link, error);
    if (error) throw IoError(link.string() + ": cannot be read: " + error.message());
    return (fs::path(root) / target).lexically_normal().string();
  }
  const std::string text = link.string() + ".txt";
  if (!fs::is_regular_file(text, error)) return std::nullopt;
  const std::string name = Trimmed(ReadTextFile(text));
  if (name.empty()) return std::nullopt;
  return (fs::path(root) / name).lexically_normal().string();
}

void WritePointer(const std::string& root, const std::string& pointer,
                  const std::string& target_name) {
  const fs::path link = fs::path(root) / pointer;
  const std::string text = link.string() + ".txt";
  const std::string fresh = (fs::path(root) / ("." + pointer + ".new")).string();
  std::error_code ignored;
  fs::remove(fresh, ignored);
  bool linked = true;
  try {
    MakeSymlink(target_name, fresh);
  } catch (const Error&) {
    linked = false;
  }
  if (linked) {
    RenamePath(fresh, link.string());
    fs::remove(text, ignored);
  } else {
    WriteFileDurably(fresh, target_name + "\n");
    RenamePath(fresh, text);
    if (fs::is_symlink(link, ignored)) fs::remove(link, ignored);
  }
  SyncDirectory(root);
}

std::set<std::string> PointedNames(const std::string& root) {
  std::set<std::string> names;
  std::error_code error;
  for (const auto& item : fs::directory_iterator(root, error)) {
    std::error_code ignored;
    std::string pointer = item.path().filename().string();
    if (!item.is_symlink(ignored)) {
      if (item.path().extension() != ".txt") continue;
      pointer = item.path().stem().string();
      const bool upper = std::none_of(pointer.begin(), pointer.end(),
                                      [](unsigned char c) { return std::islower(c); });
      if (!upper) continue;
    }
    const auto target = ReadPointer(root, pointer);
    if (!target) continue;
    // A link may go round about: compare what it leads to, not how it is written.
    const fs::path real = fs::weakly_canonical(*target, ignored);
    if (real.parent_path() == fs::weakly_canonical(root, ignored))
      names.insert(real.filename().string());
  }
  return names;
}

std::vector<std::string> NamesToRemove(const std::vector<CheckpointDir>& ours, int64_t keep,
                                       const std::set<std::string>& pointed) {
  std::vector<std::string> doomed;
  int64_t kept = 0;
  for (const CheckpointDir& dir : ours) {
    const bool among_newest = !dir.superseded && kept++ < keep;
    if (!among_newest && pointed.count(dir.name) == 0) doomed.push_back(dir.name);
  }
  return doomed;
}

}  // namespace am::engine
